"""Write a plan to disk so that kills are recoverable."""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from extractor.pipeline.plan import Plan, Verdict
from extractor.project import base, disk, journal, lock
from extractor.project.scratch_dir import make_scratch_dir
from extractor.project.side_files import BESIDE_SUFFIX
from extractor.values.errors import CheckFailed, UsageError, VextractError

# Nearly all the time goes into waiting for the disk to have each file, and a disk takes many at once.
_WRITERS = 16


def create(target: Path, plan: Plan, *, lock_data: bytes, base_data: bytes) -> None:
    """Write a new project beside the target, then rename it once.

    Args:
        target: Does not exist, or is an empty directory; the directories above it are made where they are missing.
        plan: What to write.
        lock_data, base_data: The lock and the base.

    Raises:
        UsageError: the target cannot be made, or was taken in the meantime.
    """
    files = {action.path: action.data for action in plan.actions if action.data is not None}
    write_new(target, {**files, base.PATH: base_data, lock.NAME: lock_data})


def write_new(target: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new directory, all or none.

    Args:
        target: As for `create`.
        files: By path.

    Raises:
        UsageError: as for `create`.
    """
    try:
        with _make_parents(target), make_scratch_dir(target) as folder:
            places = {
                folder / path if path == lock.NAME else disk.gate(folder, path): data for path, data in files.items()
            }
            for parent in sorted({place.parent for place in places}):
                parent.mkdir(parents=True, exist_ok=True)
            with ThreadPoolExecutor(_WRITERS) as pool:
                for _ in pool.map(disk.write_new, places.keys(), places.values()):
                    pass
            for parent in sorted({path.parent for path in folder.rglob("*")}):
                disk.sync_directory(parent)
            folder.rename(target)
            disk.sync_directory(target.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise UsageError(
                f"{target}: something else was put there in the meantime", hint="choose another path"
            ) from None
        raise UsageError(
            f"{target}: cannot be written: {error.strerror or error}", hint="choose another path, or make room there"
        ) from None


def restore(project: Path, plan: Plan, *, base_data: bytes | None) -> None:
    """Write the missing files of a project, and no others.

    Args:
        project: The project.
        plan: From `plan_sync`: it adds and keeps.
        base_data: The base, where that has to be written too.

    Raises:
        CheckFailed: a file cannot be written; those written before it are removed again.
    """
    files = {action.path: action.data for action in plan.actions if action.verdict is Verdict.ADD}
    for path in files:
        disk.gate(project, path)
    written: list[Path] = []
    path = ""
    try:
        for path, data in files.items():
            assert data is not None
            target = disk.gate(project, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            disk.replace(target, data, check=partial(_refuse_existing, target))
            written.append(target)
        if base_data is not None:
            path = base.PATH
            target = disk.gate(project, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            disk.replace(target, base_data)
    except BaseException as error:
        for done in written:
            done.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CheckFailed(
                f"{path}: cannot be written: {error.strerror or error}; nothing was restored",
                hint="check the permissions and the free space of the project's directory",
            ) from None
        raise


def upgrade(
    project: Path, plan: Plan, seen: Mapping[str, bytes | None], *, lock_data: bytes, base_data: bytes, title: str
) -> None:
    """Execute a plan through a journal.

    The journal stays until the owner ends it where a conflict is left.

    Args:
        project: The project, locked by the caller.
        plan: From `plan_upgrade`.
        seen: What the plan was made from, by path; a file that has changed since is not overwritten.
        lock_data, base_data: The new lock and the new base.
        title: What the upgrade is called while it goes on: "verl 0.5.0 -> verl 0.6.1".

    Raises:
        CheckFailed: a file cannot be written, or was changed in the meantime. The message says if all is as before.
    """
    try:
        entry = build_journal(project, plan, seen, lock_data=lock_data, base_data=base_data, title=title)
        journal.begin(project, entry)
    except OSError as error:
        with contextlib.suppress(OSError):
            journal.discard(project)
        raise _explain_failure(project, error, "nothing was changed") from None
    done: set[str] = set()
    try:
        journal.go_forward(project, entry, done)
        if not entry.conflicts:
            journal.discard(project)
    except BaseException as error:
        try:
            journal.go_back(project, entry, done)
            journal.discard(project)
            outcome = "nothing was changed"
        except (OSError, VextractError):
            outcome = "the upgrade stopped half way: `vextract upgrade --abort` undoes it"
        if isinstance(error, OSError):
            raise _explain_failure(project, error, outcome) from None
        raise


def build_journal(
    project: Path, plan: Plan, seen: Mapping[str, bytes | None], *, lock_data: bytes, base_data: bytes, title: str
) -> journal.Journal:
    """Return the journal of a plan.

    An unreadable file is an OSError.
    """
    conflicts = [
        journal.Conflict(
            action.path, next((path for path, _ in action.side_files if path.endswith(BESIDE_SUFFIX)), None)
        )
        for action in plan.actions
        if action.verdict is Verdict.CONFLICT
    ]
    wanted = {**dict.fromkeys(plan.removals()), **plan.writes()}
    return journal.of(project, wanted, seen, conflicts, lock_data=lock_data, base_data=base_data, title=title)


def resume(project: Path, entry: journal.Journal) -> None:
    """Finish an interrupted upgrade; keep the journal if conflicts remain.

    Raises:
        CheckFailed: a file cannot be written, or was changed since; it can be tried again.
    """
    try:
        journal.go_forward(project, entry)
        if not entry.conflicts:
            journal.discard(project)
    except OSError as error:
        raise _explain_failure(project, error, "the upgrade is still half way") from None


def undo(project: Path, entry: journal.Journal) -> tuple[str, ...]:
    """Restore every file; return where later work is kept.

    Raises:
        CheckFailed: a file cannot be written; it can be tried again.
    """
    try:
        saved = journal.go_back(project, entry)
        journal.discard(project)
    except OSError as error:
        raise _explain_failure(project, error, "the upgrade is still half way") from None
    return saved


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "it has appeared in the meantime", str(target))


def _explain_failure(project: Path, error: OSError, outcome: str) -> CheckFailed:
    name = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes, os.PathLike)) else project
    if name.is_relative_to(project) and name != project:
        name = name.relative_to(project)
    return CheckFailed(
        f"{name}: cannot be written: {error.strerror or error}; {outcome}",
        hint="check the permissions and the free space of the project's directory, then run the command again",
    )


@contextlib.contextmanager
def _make_parents(target: Path) -> Iterator[None]:
    """Make the missing parent directories; remove them again on failure."""
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
