"""Read verl from a checkout, site-packages or the installed package."""

import errno
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from extractor.pipeline.source.archive import build_source
from extractor.pipeline.source.source import Source, SourceKind
from extractor.values import limits, readers
from extractor.values.errors import SourceError

_TOP_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "NOTICE", "NOTICE.txt", "NOTICE.md", "Notice.txt")


def read(path: Path) -> Source:
    """Read a directory that holds verl/, or verl/ itself.

    Raises:
        SourceError: it is not verl, or cannot be read.
    """
    root = _find_root(path)
    infos = sorted(item for item in root.glob("verl-*.dist-info") if item.is_dir())
    kind: SourceKind = "installed" if infos else "checkout"
    try:
        # Below site-packages the files at the top are somebody else's.
        members = dict(_list_files(root, "verl"))
        if kind == "checkout":
            for name in _TOP_FILES:
                file = root / name
                if file.is_file() and Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
                    members[name] = readers.read_bytes(file)
        for info in infos:
            members.update(_list_files(root, info.name))
        clash = readers.find_clash(members)
        if clash:
            raise SourceError(f"{path}: {clash}", hint="rename one of them, or remove it")
    except OSError as error:
        raise SourceError(
            f"{error.filename or path}: {error.strerror}", hint="look at what lies there, and its permissions"
        ) from None
    return build_source(members, kind, hash_tree(members), str(path))


def hash_tree(members: Mapping[str, bytes]) -> str:
    """Hash the Python files, licence and notice, in a fixed order."""
    total = sha256()
    for name in sorted(members):
        python = name.startswith("verl/") and name.endswith(".py")
        if python or name.rpartition("/")[2].upper().startswith(("LICENSE", "LICENCE", "NOTICE")):
            total.update(f"{sha256(members[name]).hexdigest()}  {name}\n".encode())
    return total.hexdigest()


def _find_root(path: Path) -> Path:
    if (path / "verl" / "__init__.py").is_file():
        return path
    if (path / "__init__.py").is_file() and (path / "version" / "version").is_file():
        resolved = path.resolve()
        if resolved.name == "verl":
            return resolved.parent
    raise SourceError(
        f"{path}: not a source of verl: it has no verl/__init__.py",
        hint="pass a wheel, a checkout (the directory that holds verl/) or an installed verl",
    )


def _list_files(root: Path, top: str) -> Iterator[tuple[str, bytes]]:
    inside = os.path.realpath(root)
    if not os.path.lexists(root / top):
        return
    total = 0
    for file in readers.list_files_below(root / top, lambda folder: folder.name != "__pycache__"):
        if file.suffix == ".pyc" or (top != "verl" and file.is_symlink()):
            continue
        path = file.relative_to(root).as_posix()
        if not readers.is_plain_path(path):
            raise SourceError(f"{root}: unsafe path {readers.show_path(path)}", hint="rename the file, or remove it")
        if file.is_symlink():
            where = os.path.realpath(file)
            if not Path(where).is_relative_to(inside):
                raise SourceError(
                    f"{file}: a link that leads out of the source",
                    hint="replace it by the file, or pass another source",
                )
        if not file.is_file():
            continue
        data = readers.read_bytes(file)
        total += len(data)
        if total > limits.MAX_UNPACKED:
            raise OSError(
                errno.EFBIG, f"its files have more than {readers.write_size(limits.MAX_UNPACKED)}", str(root / top)
            )
        yield path, data
