"""Show an owner's edits as unified diffs."""

import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from extractor.project.lock import Lock
from extractor.values import readers
from extractor.values.errors import CheckFailed, UsageError
from extractor.values.tree import FileKind

_NO_NEWLINE = b"\n\\ No newline at end of file\n"


def list_edits(project: Path, lock: Lock, base: Mapping[str, bytes], only: Collection[str] = ()) -> dict[str, bytes]:
    """Map edited and missing files to their diffs, sorted by path, without hooks.

    Args:
        base: The emitted bytes by path.
        only: Files and directories, relative to the project, that are asked for; empty: all.

    Raises:
        UsageError: one of them is not managed.
        CheckFailed: a file cannot be read.
    """
    chosen = [file.path for file in lock.files if file.kind is not FileKind.HOOK]
    if only and "." not in only:
        below = {name: {path for path in chosen if path == name or path.startswith(f"{name}/")} for name in only}
        for name in (name for name, paths in below.items() if not paths):
            if any(file.path == name or file.path.startswith(f"{name}/") for file in lock.files):
                raise UsageError(
                    f"{name}: yours: nothing was emitted to compare it with", hint="compare it with git diff"
                )
            hint = "`vextract status` lists the files that are edited"
            raise UsageError(f"{name}: not a file that vextract manages", hint=hint)
        chosen = [path for path in chosen if path in set().union(*below.values())]
    diffs = {}
    for path in chosen:
        try:
            current: bytes | None = readers.read_bytes(project / path)
        except (FileNotFoundError, NotADirectoryError, readers.NotAFile):
            current = None
        except OSError as error:
            raise explain_unreadable(path, error) from None
        if current != base[path]:
            diffs[path] = write_unified_diff(path, base[path], current)
    return diffs


def explain_unreadable(path: str, error: OSError) -> CheckFailed:
    """Return the error of a file that cannot be read."""
    return CheckFailed(f"{path}: cannot be read: {error.strerror}", hint="check the file's permissions")


def write_unified_diff(path: str, old: bytes, new: bytes | None) -> bytes:
    """Return a unified diff that `patch -p1` and `git apply` read; `new` is None if missing."""
    if b"\0" in old + (new or b""):
        return f"Binary files a/{path} and b/{path} differ\n".encode()
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _split_lines(old),
        _split_lines(new or b""),
        f"a/{path}".encode(),
        b"/dev/null" if new is None else f"b/{path}".encode(),
    )
    return b"".join(line if line.endswith(b"\n") else line + _NO_NEWLINE for line in lines)


def undo_unified(new: bytes, text: bytes) -> bytes | None:
    """Return a unified diff's old side; None if not applicable.

    Args:
        new: The new side.
        text: The diff, and anything above it.
    """
    lines, old, done = _split_lines(new), list[bytes](), 0
    for hunk in re.split(rb"^(?=@@ )", text, flags=re.MULTILINE)[1:]:
        head, *body = _split_lines(hunk)
        match = re.match(rb"@@ -\S+ \+(\d+)(?:,\d+)? @@", head)
        if match is None:
            return None
        body = [
            line[:-1] if after.startswith(b"\\") else line
            for line, after in zip(body, [*body[1:], b""], strict=True)
            if not line.startswith(b"\\")
        ]
        mine = [line[1:] for line in body if line[:1] in b" +"]
        start = int(match[1]) - bool(mine)
        if lines[start : start + len(mine)] != mine:
            return None
        old += [*lines[done:start], *(line[1:] for line in body if line[:1] in b" -")]
        done = start + len(mine)
    return b"".join((*old, *lines[done:]))


def _split_lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])
