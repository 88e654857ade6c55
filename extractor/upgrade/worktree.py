"""The Git work tree that a project may lie in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from extractor.lock import NAME, Lock
from extractor.tree import FileKind
from extractor.upgrade.verdicts import Found


def uncommitted(project: Path, lock: Lock, base: Mapping[str, bytes], disk: Mapping[str, Found]) -> tuple[str, ...]:
    """Return the managed files with changes that are not committed, sorted; none outside Git.

    A file that Git does not know counts where it is not as emitted: nowhere else is there a copy of the edits.
    """
    if not _inside_git(project):
        return ()
    managed = {file.path for file in lock.files if file.kind is not FileKind.HOOK}
    git = ["git", "--no-optional-locks", "--literal-pathspecs", "-C", str(project)]
    # Named one by one: a directory of checkpoints would take long to go through.
    command = [*git, "status", "--porcelain", "-z", "-uall", "--no-renames", "--", *sorted(managed), NAME]
    try:
        status = subprocess.run(command, capture_output=True, check=False)
        prefix = subprocess.run([*git, "rev-parse", "--show-prefix"], capture_output=True, check=False)
    except OSError:
        return ()
    if status.returncode or prefix.returncode:
        return ()
    start = os.fsdecode(prefix.stdout.rstrip(b"\n"))
    found = []
    for entry in os.fsdecode(status.stdout).split("\0"):
        code, path = entry[:2], entry[3:].removeprefix(start)
        if path not in managed and path != NAME:
            continue
        if code == "??":
            lies = disk.get(path)
            if path == NAME or lies is None or lies.data == base[path]:
                continue
        found.append(path)
    return tuple(sorted(found))


def _inside_git(project: Path) -> bool:
    return any((folder / ".git").exists() for folder in (project, *project.parents))
