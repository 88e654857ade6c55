"""Ask Git about the work tree that a project lies in.

Nothing that a repository's own settings name is run: no hook, no file system monitor, no filter, no transport.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

# What Git says where a folder has a `.git` that is no repository, or nothing was committed yet.
_NOTHING_THERE = ("not a git repository", "Not a valid object name HEAD")
_PLAIN = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false")
_SETTINGS = {"GIT_ALLOW_PROTOCOL": "", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
_PATIENCE = 60.0


class GitError(Exception):
    """Git failed; the message is Git's own."""


def ask(project: Path, *arguments: str, given: bytes = b"", none_found: int = 0) -> bytes | None:
    """Run Git; return None without Git or a repository.

    Args:
        project: Where to ask.
        arguments: The command.
        given: Its input.
        none_found: The code beside 0 by which it says that it has found nothing.

    Raises:
        Unanswered: it gives another reason.
    """
    command = ["git", *_PLAIN, "--no-optional-locks", "-C", str(project), *arguments]
    try:
        done = subprocess.run(
            command, env={**os.environ, **_SETTINGS}, input=given, capture_output=True, check=False, timeout=_PATIENCE
        )
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        raise GitError(f"it took more than {_PATIENCE:.0f} seconds") from None
    if done.returncode in (0, none_found):
        return done.stdout
    said = done.stderr.decode(errors="replace").strip()
    if any(words in said for words in _NOTHING_THERE):
        return None
    raise GitError(said.partition("\n")[0].removeprefix("fatal: "))


def is_inside(project: Path) -> bool:
    """Tell whether a project lies in a work tree."""
    return any((folder / ".git").exists() for folder in (project, *project.parents))


def drop_ignored(project: Path, paths: Iterable[str], known: str) -> list[str]:
    """Leave out paths that Git or the project's .gitignore ignores.

    Args:
        project: The project.
        paths: Paths relative to it.
        known: One of its own files: if Git ignores that, it ignores the whole project, and nothing is left out.
    """
    found = list(paths)
    given = b"\0".join(os.fsencode(path) for path in (known, *found))
    with tempfile.TemporaryDirectory(prefix="vextract-") as empty, contextlib.suppress(GitError):
        place: tuple[str, ...] = ()
        if not is_inside(project):
            place = (f"--git-dir={empty}", f"--work-tree={project}")
            ask(project, "init", "--quiet", "--bare", "--template=", empty)
        ignored = (ask(project, *place, "check-ignore", "-z", "--stdin", given=given, none_found=1) or b"").split(b"\0")
        if os.fsencode(known) not in ignored:
            return [path for path in found if os.fsencode(path) not in ignored]
    return found
