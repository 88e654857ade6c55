"""List a project's uncommitted files."""

import os
from collections.abc import Iterable, Mapping
from hashlib import sha1, sha256
from pathlib import Path

from extractor.project import git
from extractor.project.lock import NAME, Lock
from extractor.usecases.upgrade.verdicts import FileOnDisk
from extractor.values.tree import FileKind


def list_uncommitted(
    project: Path, lock: Lock, base: Mapping[str, bytes], disk: Mapping[str, FileOnDisk], own: Iterable[str] = ()
) -> tuple[tuple[str, ...], str]:
    """Return the managed files with uncommitted changes, sorted; none outside Git.

    A file that Git does not know counts where it is not as emitted: nowhere else is there a copy of the edits. Where
    Git does not say, since the repository is another user's or damaged, the text says why.
    """
    if not git.is_inside(project):
        return (), ""
    managed = sorted({file.path for file in lock.files if file.kind is not FileKind.HOOK} | {NAME, *own})
    # Named one by one: a directory of checkpoints would take long to go through.
    try:
        index = git.ask(project, "--literal-pathspecs", "ls-files", "--stage", "-z", "--", *managed)
        committed = git.ask(project, "--literal-pathspecs", "ls-tree", "-r", "-z", "HEAD", "--", *managed)
    except git.GitError as error:
        return (), str(error)
    if index is None:
        return (), ""
    staged = {path: fields[1] for path, fields in _parse_entries(index).items()}
    last = {path: fields[2] for path, fields in _parse_entries(committed or b"").items()}
    changed = []
    for path in managed:
        there = disk.get(path)
        data = (project / path).read_bytes() if path == NAME else there.data if there is not None else None
        if (project / path).is_symlink():  # Git has what it says, and not what lies there
            data = os.fsencode((project / path).readlink())
        if path not in staged and path not in last:
            if data is not None and path != NAME and data != base.get(path):
                changed.append(path)
        elif staged.get(path) != last.get(path) or staged.get(path, "") not in _name_blobs(data, staged.get(path, "")):
            changed.append(path)
    return tuple(changed), ""


def _name_blobs(data: bytes | None, like: str) -> list[str]:
    """Return what Git may call a file, whatever its line ends: "" for one that is not there."""
    digest, sides = sha1 if len(like) == 40 else sha256, () if data is None else (data, data.replace(b"\r\n", b"\n"))
    return [digest(b"blob %d\0" % len(side) + side).hexdigest() for side in sides] or [""]


def _parse_entries(listed: bytes) -> dict[str, list[str]]:
    """Return path -> the fields before it, of what Git lists."""
    lines = [item.partition(b"\t") for item in listed.split(b"\0") if item]
    return {os.fsdecode(path): fields.decode().split() for fields, _, path in lines}
