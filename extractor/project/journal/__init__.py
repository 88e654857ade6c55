"""Keep an upgrade's journal: old and new bytes of every change.

While it lies in the project, every step can be done again in either direction, whatever a kill left behind. The lock
goes last on the way forward and first on the way back, so it tells how far an upgrade has come.
"""

import errno
import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from extractor.project import base, disk, lock
from extractor.project.journal import archive
from extractor.project.journal.entry import Change as Change
from extractor.project.journal.entry import Conflict as Conflict
from extractor.project.journal.entry import Journal as Journal
from extractor.project.journal.entry import Phase as Phase
from extractor.values import readers
from extractor.values.errors import CheckFailed, UsageError

FOLDER = ".vextract/upgrade"
PATH = f"{FOLDER}/journal.zip"
SAVED = ".vextract/aborted"
_IGNORE = f"{FOLDER}/.gitignore"


def of(
    project: Path,
    wanted: Mapping[str, bytes | None],
    seen: Mapping[str, bytes | None],
    conflicts: Iterable[Conflict],
    *,
    lock_data: bytes,
    base_data: bytes,
    title: str,
) -> Journal:
    """Return the journal of an upgrade's changes to a project.

    Args:
        project: The project.
        wanted: The bytes of every file that is written, None for one that is removed; lock and base apart.
        seen: What that was decided from: the bytes of every file that is written or removed and was there.
        conflicts: What is left to the owner.
        lock_data, base_data: The new lock and base.
        title: What the upgrade is called.

    Raises:
        CheckFailed: a file has changed since; or something that is no plain file, or no directory, is in the way.
        OSError: a file cannot be read, or the project is gone.
    """
    _check_there(project)
    changes = [_change(project, path, wanted[path]) for path in sorted(wanted)]
    for change in changes:
        if change.old != seen.get(change.path):
            raise CheckFailed(f"{change.path}: changed while the upgrade was worked out", hint="run the command again")
    changes += [_change(project, base.PATH, base_data), _change(project, lock.NAME, lock_data)]
    written = {change.path for change in changes if change.new is not None}
    made = sorted({folder for path in written for folder in _list_parents(path) if not (project / folder).exists()})
    emptied = _find_emptied(project, {change.path for change in changes if change.new is None}, written)
    return Journal(title, tuple(changes), tuple(made), tuple(emptied), tuple(conflicts))


def begin(project: Path, journal: Journal) -> None:
    """Write the journal; until its rename there is no upgrade.

    Raises:
        ValueError: no later command could read it, so that nothing is begun: a mistake of vextract's.
        OSError: it cannot be written.
    """
    data = archive.dump(journal)
    archive.parse(data)
    disk.gate(project, PATH).parent.mkdir(parents=True, exist_ok=True)
    disk.replace(project / _IGNORE, b"*\n")
    disk.replace(project / PATH, data)


def go_forward(project: Path, journal: Journal, done: set[str] | None = None) -> None:
    """Do what is not done yet.

    Args:
        project: The project.
        journal: What is to be done.
        done: Gets the paths that are as they shall be.

    Raises:
        CheckFailed: a file was changed since the upgrade began; nothing more is written then.
        OSError: a file cannot be written.
    """
    done = set() if done is None else done
    for change in journal.changes:
        _check_unchanged(project, change)
    _check_there(project)
    for folder in journal.made:
        disk.gate(project, folder).mkdir(exist_ok=True)
    for change in journal.changes[:-2]:
        _put(project, change, change.new)
        done.add(change.path)
    _remove_leftovers(project, journal)
    for folder, _ in reversed(journal.emptied):
        _remove_if_empty(disk.gate(project, folder))
    for change in journal.changes[-2:]:
        _put(project, change, change.new)
        done.add(change.path)


def go_back(project: Path, journal: Journal, done: set[str] | None = None) -> tuple[str, ...]:
    """Restore every file, byte for byte.

    Args:
        project: The project.
        journal: What was done, wholly or in part.
        done: The paths that were written, where that is known: what was typed into another one stays there.

    Returns:
        Where the files went that were neither the old ones nor what the upgrade wrote: work since then.

    Raises:
        OSError: a file cannot be written.
    """
    _check_there(project)
    typed = {
        change.path
        for change in journal.changes[:-2]
        if done is not None and change.path not in done and _is_foreign(change, _read(project, change.path))
    }
    saved = _save(project, journal, typed)
    _put(project, journal.lock, journal.lock.old)
    for folder, mode in journal.emptied:
        path = disk.gate(project, folder)
        if not path.is_dir():
            path.mkdir(parents=True)
            path.chmod(mode)
    for change in journal.changes[:-1]:
        if change.path in typed:
            continue
        if change.old is not None:
            disk.gate(project, change.path).parent.mkdir(parents=True, exist_ok=True)
        _put(project, change, change.old)
    _remove_leftovers(project, journal)
    for folder in reversed(journal.made):
        _remove_if_empty(disk.gate(project, folder))
    return saved


def discard(project: Path) -> bool:
    """Remove the journal and half-written ones; return True if there was any."""
    folder = project / FOLDER
    if not folder.is_dir():
        return False
    for name in (PATH, _IGNORE):
        disk.gate(project, name).unlink(missing_ok=True)
        disk.name_scratch(project / name).unlink(missing_ok=True)
    _remove_if_empty(folder)
    disk.sync_directory(folder.parent)
    return True


def read(project: Path) -> Journal | None:
    """Return a project's journal, or None if there is none.

    Raises:
        CheckFailed: it is damaged.
    """
    try:
        return archive.parse(readers.read_bytes(project / PATH))
    except FileNotFoundError:
        return None
    except (*readers.ZIP_ERRORS, KeyError, TypeError, AttributeError, UsageError) as error:
        raise CheckFailed(
            f"{PATH} cannot be read: {error}",
            hint="restore the project from version control, then remove .vextract/upgrade",
        ) from None


def read_phase(project: Path, journal: Journal) -> Phase:
    """Return how far it has come."""
    if _read(project, journal.lock.path) != journal.lock.new:
        return Phase.HALF_WAY
    return Phase.CONFLICTS if journal.conflicts else Phase.DONE


def explain_interrupted(journal: Journal) -> CheckFailed:
    """Return the error for a project between two states."""
    return CheckFailed(
        f"an upgrade was interrupted half way: {journal.title}",
        hint="finish it with `vextract upgrade --continue`, or go back with `vextract upgrade --abort`",
    )


@contextmanager
def lock_upgrades(project: Path) -> Iterator[None]:
    """Keep other processes from upgrading the project meanwhile.

    Raises:
        CheckFailed: one does so already.
    """
    with disk.lock_exclusively(project) as free:
        if not free:
            raise CheckFailed(
                "another vextract is upgrading this project", hint="wait until it has ended, then try again"
            )
        yield


def _check_there(project: Path) -> None:
    if not project.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the project is gone", str(project))


def _change(project: Path, path: str, new: bytes | None) -> Change:
    old = _read(project, path)
    mode = stat.S_IMODE((project / path).stat().st_mode) & 0o777 if old is not None else None
    return Change(path, old, new, mode)


def _read(project: Path, path: str) -> bytes | None:
    target = disk.gate(project, path)
    try:
        if not stat.S_ISREG(target.lstat().st_mode):
            raise CheckFailed(f"{path}: in the way: no plain file", hint="move it away, then run the command again")
        return readers.read_bytes(target)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_unchanged(project: Path, change: Change) -> None:
    if _is_foreign(change, _read(project, change.path)):
        raise CheckFailed(
            f"{change.path}: changed since the upgrade began",
            hint="put your version aside, then run `vextract upgrade --abort`",
        )


def _put(project: Path, change: Change, data: bytes | None) -> None:
    """Write one side's bytes, but keep what somebody has typed meanwhile."""
    target, found = disk.gate(project, change.path), _read(project, change.path)
    if data is None:
        if found is not None:
            disk.remove(target)
        return
    mode = change.mode
    if found == data and (mode is None or stat.S_IMODE(target.stat().st_mode) == mode):
        return

    def check() -> None:
        if _read(project, change.path) != found:
            raise CheckFailed(f"{change.path}: changed while the upgrade wrote it", hint="run the command again")

    disk.replace(target, data, mode, check)


def _is_foreign(change: Change, found: bytes | None) -> bool:
    """Return True for a file in neither of its two states."""
    return found not in (change.old, change.new)


def _save(project: Path, journal: Journal, typed: set[str]) -> tuple[str, ...]:
    saved = []
    for change in journal.changes[:-2]:
        found = _read(project, change.path)
        if found is not None and _is_foreign(change, found) and change.path not in typed:
            path = _free(project, f"{SAVED}/{change.path}", found)
            target = disk.gate(project, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            disk.replace(target, found)
            saved.append(path)
    return tuple(saved)


def _free(project: Path, path: str, data: bytes) -> str:
    """Return an unused path for what is put aside."""

    def is_free(name: str) -> bool:
        place = disk.gate(project, name)
        return not os.path.lexists(place) or (place.is_file() and readers.read_bytes(place) == data)

    numbered = (f"{path}.{number}" for number in itertools.count(2))
    return next(filter(is_free, itertools.chain([path], numbered)))


def _remove_leftovers(project: Path, journal: Journal) -> None:
    """Remove what an interrupted write left beside its file."""
    for change in journal.changes:
        disk.name_scratch(disk.gate(project, change.path)).unlink(missing_ok=True)


def _list_parents(path: str) -> list[str]:
    return [str(parent) for parent in PurePosixPath(path).parents if str(parent) != "."]


def _find_emptied(project: Path, removed: set[str], written: set[str]) -> list[tuple[str, int]]:
    """Return the directories that hold nothing but what is removed."""
    stay = {folder for path in written for folder in _list_parents(path)}
    gone = set(removed)
    found = []
    for folder in sorted({folder for path in removed for folder in _list_parents(path)}, reverse=True):
        path = project / folder
        if folder in stay or path.is_symlink() or not path.is_dir():
            continue
        if all(f"{folder}/{item.name}" in gone for item in path.iterdir()):
            gone.add(folder)
            found.append((folder, stat.S_IMODE(path.stat().st_mode)))
    return sorted(found)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    else:
        disk.sync_directory(folder.parent)
