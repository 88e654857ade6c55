"""Read and write `.vextract/base.zip`, the emitted bytes that merges start from.

The members are stored, not deflated: then the bytes depend on the files alone and not on which zlib packed them, and
version control, which compresses by itself, keeps small differences small.
"""

import io
import zipfile
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from extractor.project.lock import Lock
from extractor.values import readers
from extractor.values.errors import CheckFailed
from extractor.values.tree import FileKind, Tree

PATH = ".vextract/base.zip"

_EPOCH = (1980, 1, 1, 0, 0, 0)
_HINT = "run `vextract sync` to rebuild it, or restore it from version control"


def collect_from_tree(tree: Tree) -> dict[str, bytes]:
    """Return the files that a base holds: all but hooks."""
    return {file.path: file.data for file in tree if file.kind is not FileKind.HOOK}


def dump(files: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a base, equal for equal files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(files):
            member = zipfile.ZipInfo(path, _EPOCH)
            member.create_system = 3
            member.external_attr = 0o100644 << 16
            archive.writestr(member, files[path])
    return buffer.getvalue()


def expected(lock: Lock) -> dict[str, str]:
    """Return path -> digest of what a lock's base holds."""
    return {file.path: file.sha256 for file in lock.files if file.kind is not FileKind.HOOK}


def read(project: Path, lock: Lock) -> dict[str, bytes]:
    """Return the emitted bytes by path, each verified against the lock.

    Raises:
        CheckFailed: the base is missing, damaged, or not the lock's.
    """
    try:
        data = readers.read_bytes(project / PATH)
    except FileNotFoundError:
        raise CheckFailed(f"{PATH} is missing", hint=_HINT) from None
    except OSError as error:
        raise CheckFailed(f"{PATH} cannot be read: {error.strerror}", hint=_HINT) from None
    return parse(data, lock)


def parse(data: bytes, lock: Lock) -> dict[str, bytes]:
    """Read the bytes of a base; raises as `read` does."""
    wanted = expected(lock)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_names([member.filename for member in members], wanted)
            # Stored members cannot be larger than the file that holds them.
            if not readers.is_stored(archive, len(data)):
                raise CheckFailed(f"{PATH} is not as vextract writes it: compressed", hint=_HINT)
            found = {member.filename: archive.read(member) for member in members}
    except readers.ZIP_ERRORS as error:
        raise CheckFailed(f"{PATH} is damaged: {error}", hint=_HINT) from None
    for path, content in found.items():
        if sha256(content).hexdigest() != wanted[path]:
            raise CheckFailed(f"{PATH}: {path} is not what vextract.lock says was emitted", hint=_HINT)
    return found


def _check_names(names: Iterable[str], wanted: Mapping[str, str]) -> None:
    found = sorted(names)
    for path in found:
        if path not in wanted:
            raise CheckFailed(f"{PATH} holds {path}, which vextract.lock does not list", hint=_HINT)
    if found != sorted(wanted):
        missing = sorted(set(wanted) - set(found))
        what = f"{missing[0]} is missing" if missing else "a file stands twice"
        raise CheckFailed(f"{PATH} is damaged: {what}", hint=_HINT)
