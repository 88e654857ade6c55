"""`--from`: files and directories that a user names."""

from pathlib import Path

import pytest

from extractor.pipeline.source import detect_release, open_source
from extractor.values.errors import SourceError
from tests.source import archives

CHECKOUT = {**archives.FILES, "LICENSE": b"a licence\n", "setup.py": b"raise SystemExit('executed')\n"}


def test_checkout(tmp_path: Path) -> None:
    root = archives.write_tree(tmp_path / "verl", CHECKOUT)
    source = open_source(archives.pin(), root)
    assert source.kind == "checkout"
    assert list(source.files) == ["verl/__init__.py", "verl/protocol.py", "verl/version/version"]
    assert open_source(archives.pin(), root / "verl") == source
    archives.write_tree(root, {"verl/protocol.py": b"# edited\n"})  # which is allowed
    assert open_source(archives.pin(), root).read("verl/protocol.py") == "# edited\n"


def test_installed(tmp_path: Path) -> None:
    site = archives.write_tree(tmp_path / "site-packages", {**archives.FILES, **archives.WHEEL_EXTRA})
    archives.write_tree(site, {"LICENSE": b"of something else", "tests/test_other.py": b""})
    source = open_source(archives.pin(), site)
    assert source.kind == "installed"
    assert source.licence == "a licence\n"
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
