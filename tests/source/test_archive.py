"""Archives from elsewhere: what is read, and what is refused."""

import stat
import zipfile
from pathlib import Path

import pytest

from extractor.pipeline.source import open_source
from extractor.values import limits
from extractor.values.errors import SourceError
from tests.source import archives


def open_wheel(tmp_path: Path, data: bytes):
    path = tmp_path / archives.WHEEL
    path.write_bytes(data)
    return open_source(archives.pin(wheel=data), path)


def zip_member(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.filename = name  # ZipInfo itself cuts at NUL and converts separators
    info.external_attr = mode << 16
    return info


def test_wheel(tmp_path: Path) -> None:
    source = open_wheel(tmp_path, archives.wheel())
    assert (source.release, source.kind) == ("0.6.1", "wheel")
    assert list(source.files) == ["verl/__init__.py", "verl/protocol.py", "verl/version/version"]
    assert source.read("verl/protocol.py") == "class Protocol:\n    pass\n"
    assert source.licence == "a licence\n"
    assert (source.notice, source.lines) == (None, 3)
    source.materialise(tmp_path / "one")
    assert (tmp_path / "one/verl/protocol.py").read_bytes() == archives.FILES["verl/protocol.py"]
    assert not (tmp_path / "one/tests").exists()


HOSTILE = (
    ("/etc/passwd", 0, "unsafe path"),
    ("verl/../../evil.py", 0, "unsafe path"),
    ("C:/evil.py", 0, "unsafe path"),
    ("verl\\..\\evil.py", 0, "unsafe path"),
    ("verl/a\nb.py", 0, "unsafe path"),
    ("verl/link.py", stat.S_IFLNK | 0o777, "link or a device"),
    ("verl/device.py", stat.S_IFCHR | 0o666, "link or a device"),
    ("verl/protocol.py", 0, "stands twice"),
)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_wheel(tmp_path: Path) -> None:
    for name, mode, problem in HOSTILE:
        data = archives.wheel(more=[(zip_member(name, mode), b"evil")])
        with pytest.raises(SourceError, match=problem) as caught:
            open_wheel(tmp_path, data)
        assert caught.value.code == 3
        assert caught.value.hint
    assert sorted(path.name for path in tmp_path.rglob("*")) == [archives.WHEEL]


def test_archives_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match=r"verl/bomb unpacks to 33,554,432 bytes"):
        open_wheel(tmp_path, archives.wheel({**archives.FILES, "verl/bomb": bytes(2**25)}))
    for limit, most, problem in (("MAX_UNPACKED", 50, "unpacks to more"), ("MAX_MEMBERS", 4, "more than 4 files")):
        with monkeypatch.context() as patch:
            patch.setattr(limits, limit, most)
            with pytest.raises(SourceError, match=problem):
                open_wheel(tmp_path, archives.wheel())


def test_damaged(tmp_path: Path) -> None:
    data = archives.wheel()
    member = bytearray(archives.wheel({**archives.FILES, "verl/big.py": bytes(range(256)) * 16}))
    member[member.index(b"verl/big.py") + 40] ^= 0xFF
    for damaged in (*(data[:keep] for keep in (0, 100, len(data) // 2, 9 * len(data) // 10)), bytes(member)):
        with pytest.raises(SourceError, match="damaged archive"):
            open_wheel(tmp_path, damaged)
    source = open_wheel(tmp_path, archives.wheel({**archives.FILES, "verl/latin.py": b"# one\n# caf\xe9\n"}))
    with pytest.raises(SourceError, match=r"^verl/latin\.py:2: not UTF-8"):
        source.read("verl/latin.py")
    with pytest.raises(SourceError, match=r"verl 0\.6\.1 has no file verl/nothing\.py"):
        source.read("verl/nothing.py")


CHANGES: tuple[tuple[dict[str, bytes | None], str], ...] = (
    ({"verl/__init__.py": None}, "it has no verl/__init__.py"),
    ({"verl/version/version": b"latest\n"}, "no release number"),
    ({"verl/version/version": b"0.5.0\n"}, r"verl 0\.5\.0, not 0\.6\.1"),
)


def test_archive_that_is_not_that_verl(tmp_path: Path) -> None:
    for change, problem in CHANGES:
        files = {path: data for path, data in {**archives.FILES, **change}.items() if data is not None}
        with pytest.raises(SourceError, match=problem):
            open_wheel(tmp_path, archives.wheel(files))
