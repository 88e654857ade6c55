"""Small archives that claim to be verl, made in the test; none holds a line of verl."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from extractor.values.manifest import SourcePin

WHEEL = "verl-0.6.1-py3-none-any.whl"

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


def pin(*, wheel: bytes = b"", release: str = "0.6.1") -> SourcePin:
    """A pin that these bytes satisfy."""
    return SourcePin(release=release, wheel_filename=WHEEL, wheel_sha256=sha256(wheel).hexdigest())


def write_tree(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a directory."""
    for path, data in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root
