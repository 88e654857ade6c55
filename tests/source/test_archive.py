"""Archives from elsewhere: what is read, and what is refused."""

import stat
import zipfile
from pathlib import Path

import pytest

from extractor.pipeline.source import detect_release, open_source
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


# `--from`: files and directories that a user names.

CHECKOUT = {**archives.FILES, "LICENSE": b"a licence\n", "setup.py": b"raise SystemExit('executed')\n"}


def test_checkout(tmp_path: Path) -> None:
    root = archives.write_tree(tmp_path / "verl", CHECKOUT)
    source = open_source(archives.pin(), root)
    assert source.kind == "checkout"
    assert list(source.files) == ["verl/__init__.py", "verl/protocol.py", "verl/version/version"]
    assert open_source(archives.pin(), root / "verl") == source
    archives.write_tree(root, {"verl/protocol.py": b"# edited\n"})  # which is allowed
    assert open_source(archives.pin(), root).read("verl/protocol.py") == "# edited\n"
    # Installed, beside files of others.
    site = archives.write_tree(tmp_path / "site-packages", {**archives.FILES, **archives.WHEEL_EXTRA})
    archives.write_tree(site, {"LICENSE": b"of something else", "tests/test_other.py": b""})
    source = open_source(archives.pin(), site)
    assert (source.kind, source.licence) == ("installed", "a licence\n")
    assert open_source(archives.pin(), site / "verl") == source


def test_digest_of_a_directory(tmp_path: Path) -> None:
    def digest(name: str, files: dict[str, bytes]) -> str:
        return open_source(archives.pin(), archives.write_tree(tmp_path / name, files)).sha256

    first = digest("a", CHECKOUT)
    assert digest("b", dict(reversed(CHECKOUT.items()))) == first
    assert digest("c", {**CHECKOUT, "verl/__pycache__/x.pyc": b"x", "README.md": b"x", "verl/x.yaml": b"x"}) == first
    assert digest("d", {**CHECKOUT, "verl/protocol.py": b"# edited\n"}) != first
    assert digest("e", {**CHECKOUT, "LICENSE": b"another\n"}) != first


def test_links_in_a_checkout(tmp_path: Path) -> None:
    root = archives.write_tree(tmp_path / "checkout", CHECKOUT)
    (root / "verl/inside.py").symlink_to(root / "verl/protocol.py")
    assert open_source(archives.pin(), root).read("verl/inside.py").startswith("class Protocol")
    (tmp_path / "secret").write_text("secret")
    (root / "verl/outside.py").symlink_to(tmp_path / "secret")
    with pytest.raises(SourceError, match="leads out of the source"):
        open_source(archives.pin(), root)


NOT_VERL = (
    ({"verl/protocol.py": b""}, "not a source of verl"),
    ({"verl/__init__.py": b"", "LICENSE": b""}, "verl/version/version is missing"),
    ({"verl/__init__.py": b"", "verl/version/version": b"0.6.1"}, "no licence text"),
    ({**CHECKOUT, "verl/version/version": b"0.7.0.dev"}, r"verl 0\.7\.0\.dev, not 0\.6\.1"),
)


def test_what_will_not_do(tmp_path: Path) -> None:
    for number, (files, problem) in enumerate(NOT_VERL):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(SourceError, match=problem) as caught:
            open_source(archives.pin(), archives.write_tree(tmp_path / str(number), files))
        assert caught.value.hint
    other = "verl-0.5.0-py2.py3-none-any.whl"
    for name in (archives.WHEEL, other, "notes.txt", "verl-0.6.1.tar.gz"):
        (tmp_path / name).write_text("any")
    for name, pin, problem, hint in (
        (archives.WHEEL, archives.pin(), r"not the wheel of verl 0\.6\.1 as released: sha256 \w{64}, pinned", ""),
        (other, archives.pin(), r"verl 0\.5\.0, not 0\.6\.1", "--verl 0.5.0"),
        ("nothing.whl", archives.pin(), "no such file", ""),
        ("notes.txt", archives.pin(), "not a wheel", ""),
        ("verl-0.6.1.tar.gz", archives.pin(), "an sdist is not read", ""),
    ):
        with pytest.raises(SourceError, match=problem) as caught:
            open_source(pin, tmp_path / name)
        assert hint in caught.value.hint


def test_release_of(tmp_path: Path) -> None:
    for name in (archives.WHEEL, "torch-2.6.0-py3-none-any.whl"):
        (tmp_path / name).write_bytes(b"not read")
    assert detect_release(tmp_path / archives.WHEEL) == "0.6.1"
    assert detect_release(archives.write_tree(tmp_path / "checkout", CHECKOUT)) == "0.6.1"
    with pytest.raises(SourceError, match="does not say which release"):
        detect_release(tmp_path / "torch-2.6.0-py3-none-any.whl")
