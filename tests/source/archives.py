"""Small archives that claim to be verl, made in the test; none holds a line of verl."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from extractor.values.manifest import SourcePin

WHEEL = "verl-0.6.1-py3-none-any.whl"
SDIST = "verl-0.6.1.tar.gz"

FILES: Mapping[str, bytes] = {
    "verl/__init__.py": b"'''Stands in for a package.'''\n",
    "verl/version/version": b"0.6.1\n",
    "verl/protocol.py": b"class Protocol:\n    pass\n",
    "tests/test_protocol.py": b"def test_protocol():\n    pass\n",
}
WHEEL_EXTRA: Mapping[str, bytes] = {
    "verl-0.6.1.dist-info/licenses/LICENSE": b"a licence\n",
    "verl-0.6.1.dist-info/METADATA": b"Name: verl\nVersion: 0.6.1\n",
}


def wheel(files: Mapping[str, bytes] = FILES, *, more: Iterable[tuple[zipfile.ZipInfo, bytes]] = ()) -> bytes:
    """A wheel of these files, and of members whose headers the test wrote itself."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in {**files, **WHEEL_EXTRA}.items():
            archive.writestr(path, data)
        for info, data in more:
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


def sdist(files: Mapping[str, bytes] = FILES, *, more: Iterable[tuple[tarfile.TarInfo, bytes]] = ()) -> bytes:
    """An sdist of these files, and of members whose headers the test wrote itself."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as plain, tarfile.open(fileobj=plain, mode="w") as archive:
        for path, data in {**files, "LICENSE": b"a licence\n", "Notice.txt": b"a notice\n"}.items():
            archive.addfile(member(f"verl-0.6.1/{path}", data), io.BytesIO(data))
        for info, data in more:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """A header of a tar archive."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.type = kind
    info.linkname = link
    return info


def pin(*, wheel: bytes = b"", sdist: bytes | None = None, release: str = "0.6.1") -> SourcePin:
    """A pin that these bytes satisfy."""
    return SourcePin(
        release=release,
        wheel_filename=WHEEL,
        wheel_sha256=sha256(wheel).hexdigest(),
        sdist_filename=SDIST if sdist is not None else None,
        sdist_sha256=sha256(sdist).hexdigest() if sdist is not None else None,
    )


def write_tree(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a directory."""
    for path, data in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root
