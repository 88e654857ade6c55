"""Read untrusted files, directories and names."""

import errno
import lzma
import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from extractor.values import limits


class NotAFile(OSError):
    """Refuses a directory, pipe, device or socket."""


def read_bytes(path: Path, most: int = limits.MAX_FILE) -> bytes:
    """Return the bytes of a plain file.

    Args:
        path: Where it lies.
        most: How many bytes it may have.

    Raises:
        NotAFile: something else lies there.
        OSError: nothing does, it cannot be read, or it is larger.
    """
    with _open_file(path) as file:
        length = os.fstat(file.fileno()).st_size
        # What is appended meanwhile does not get past the limit either.
        data = file.read(most + 1) if length <= most else b""
        if length > most or len(data) > most:
            raise OSError(errno.EFBIG, f"larger than {write_size(most)}", str(path))
        return data


def _open_file(path: Path) -> BinaryIO:
    # A pipe that nobody writes to would block whoever opens it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):  # asked before `fdopen`, which has an error of its own for a directory
            raise NotAFile(errno.EINVAL, "not a plain file", str(path))
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_text(path: Path, most: int = limits.MAX_TEXT) -> str:
    """Return a file's text with line feeds, without byte order mark.

    Raises:
        OSError: as for `read_bytes`, or it is not UTF-8.
    """
    return _unify_line_feeds(decode(read_bytes(path, most), path, most))


def read_commented(path: Path, most: int = limits.MAX_TEXT) -> str:
    """Return a file's text, also with comments in another encoding.

    Raises:
        OSError: as for `read_text`; what is no comment is not UTF-8.
    """
    data = read_bytes(path, most)
    try:
        text = decode(data, path, most)
    except OSError as error:
        lines = [] if error.errno != errno.EILSEQ else data.splitlines()
        if not lines or b"\0" in data or not all(line.partition(b"#")[0].isascii() for line in lines):
            raise
        text = data.decode("utf-8", errors="replace")
    return _unify_line_feeds(text)


def _unify_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decode(data: bytes, path: Path | None = None, most: int = limits.MAX_TEXT) -> str:
    """Decode bytes without byte order mark; line ends stay.

    Raises:
        OSError: they are not UTF-8, or more than we read.
    """
    name = None if path is None else str(path)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {write_size(most)}", name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OSError(errno.EILSEQ, f"not UTF-8 text (line {line}: {error.reason})", name) from None


# Whatever `zipfile` raises for an archive that is damaged.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    RuntimeError,  # and so NotImplementedError and RecursionError
    OSError,
    ValueError,
    OverflowError,
    AttributeError,
)


def is_stored(archive: zipfile.ZipFile, length: int) -> bool:
    """Tell whether an archive's members are uncompressed and separate."""
    members = archive.infolist()
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    return stored and sum(member.file_size for member in members) <= length


def write_size(count: int) -> str:
    """Return a number of bytes as people write it."""
    return f"{count >> 20} MiB" if count >= 2**20 else f"{count >> 10} KiB"


def is_there(path: Path) -> bool:
    """Tell whether a path exists; False for one too long."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_plain_path(path: str) -> bool:
    """Return True for a portable relative path below its start."""
    parts = path.split("/")
    return (
        not any(part in ("", ".", "..") for part in parts)
        and not re.match(r"[A-Za-z]:", path)
        and "\\" not in path
        and path.isprintable()  # and so no surrogates: it is UTF-8
        and len(parts) <= limits.MAX_FOLDERS
        and all(len(part.encode()) <= limits.MAX_NAME for part in parts)
    )


def show_path(path: str) -> str:
    """Return a path from elsewhere as it may be printed."""
    return repr(path if len(path) <= limits.MAX_NAME else f"{path[: limits.MAX_NAME]}...")


def find_clash(paths: Iterable[str]) -> str:
    """Say which paths collide on some file system, or return ""."""
    seen: dict[str, str] = {}
    for path in sorted(paths):
        other = seen.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if other != path:
            return f"{other} and {path} are one file where the case of letters does not count"
    for path in sorted(seen.values()):
        folder = path.rpartition("/")[0]
        while folder:
            other = seen.get(unicodedata.normalize("NFC", folder).casefold(), "")
            if other:
                return f"{other} is a file, and {path} lies in it"
            folder = folder.rpartition("/")[0]
    return ""


def list_files_below(top: Path, enter: Callable[[Path], bool] = lambda folder: True) -> Iterator[Path]:
    """Yield the files below a directory, sorted, if it is there; links are not followed.

    Args:
        top: The directory.
        enter: Says of a directory below it whether it is looked into.

    Raises:
        OSError: a directory cannot be read, or there are too many files, or directories too deep in each other.
    """
    pending, count = [(top, 0)] if top.is_dir() else [], 0
    while pending:
        folder, depth = pending.pop()
        if depth > limits.MAX_FOLDERS:
            raise OSError(errno.ELOOP, f"more than {limits.MAX_FOLDERS} directories in each other", str(top))
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        count += len(found)
        if count > limits.MAX_MEMBERS:
            raise OSError(errno.EFBIG, f"more than {limits.MAX_MEMBERS:,} files", str(top))
        yield from (folder / entry.name for entry in found if not entry.is_dir(follow_symlinks=False))
        inside = [folder / entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
        pending += [(item, depth + 1) for item in reversed(inside) if enter(item)]


def list_python_below(project: Path, folder: str) -> list[str]:
    """Return a project's Python files below a directory, hidden ones excluded.

    Raises:
        OSError: as for `list_files_below`.
    """
    found = list_files_below(project / folder, lambda inner: not inner.name.startswith("."))
    return [
        path.relative_to(project).as_posix()
        for path in found
        if path.suffix == ".py" and not path.name.startswith(".") and path.is_file()
    ]
