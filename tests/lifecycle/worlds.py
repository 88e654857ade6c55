"""Small projects made by hand, which upgrade in milliseconds."""

import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from extractor.pipeline import apply
from extractor.pipeline.merge import Labels
from extractor.pipeline.plan import Plan, Reason, Verdict, plan_new
from extractor.project import base, lock
from extractor.project.lock import Lock
from extractor.usecases.upgrade.moved_files import Successor
from extractor.usecases.upgrade.verdicts import UpgradeInputs, carry_settings, plan_upgrade, read_files_on_disk
from extractor.values.options import Options
from extractor.values.renamed_config_keys import KeyRenames
from extractor.values.tree import File, FileKind, Tree

OLD = Options("toy", "0.5.0")
NEW = Options("toy", "0.6.1")
LABELS = Labels("yours, on verl 0.5.0", "verl 0.5.0", "verl 0.6.1")


def text(*lines: object) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def vendored(path: str, data: bytes, upstream: str | None = None) -> File:
    return File(f"toy/{path}", FileKind.VENDORED, data, upstream or f"verl/{path}", "0" * 64)


def template(path: str, data: bytes) -> File:
    return File(path, FileKind.TEMPLATE, data)


def templates(files: Mapping[str, str]) -> Tree:
    return Tree.of([template(path, data.encode()) for path, data in files.items()])


TEN = range(1, 11)
# Files that come along unedited say whose they are, or they would be parked.
ACTOR = "actor  # vextract:vendored"
OLD_TREE = Tree.of(
    [
        vendored("protocol.py", text(*TEN)),
        vendored("stays.py", text("stays")),
        vendored("gone.py", text("gone", *TEN)),
        vendored("old_place/actor.py", text(ACTOR, *TEN), "verl/actor.py"),
        vendored("dropped/alone.py", text("# vextract:vendored", "alone")),
        template("main.py", text("main", *TEN)),
        template("Makefile", text("all:")),
        File("toy/custom/reward.py", FileKind.HOOK, text("# yours")),
    ]
)
NEW_TREE = Tree.of(
    [
        vendored("protocol.py", text(*TEN, 11)),
        vendored("stays.py", text("stays")),
        vendored("new_place/actor.py", text(ACTOR, *TEN, "more"), "verl/actor.py"),
        vendored("added.py", text("added")),
        template("main.py", text("main, changed", *TEN)),
        template("Makefile", text("all: main")),
        File("toy/custom/reward.py", FileKind.HOOK, text("# another example")),
        File("toy/custom/loss.py", FileKind.HOOK, text("# new hook")),
    ]
)
MOVED = {"toy/old_place/actor.py": Successor(("toy/new_place/actor.py",), same=True)}


def edit(project: Path, *, conflicts: bool = False) -> Path:
    """Make an edit for every verdict, in a project of the old tree."""
    (project / "toy/protocol.py").write_bytes(text("# mine", *TEN))
    (project / "toy/gone.py").write_bytes(text("# mine"))
    (project / "toy/old_place/actor.py").write_bytes(text("# mine", ACTOR, *TEN))
    (project / "main.py").chmod(0o755)
    (project / "toy/dropped").chmod(0o700)
    (project / "empty/of/mine").mkdir(parents=True)
    if conflicts:
        (project / "main.py").write_bytes(text("mine", *TEN))
        (project / "toy/added.py").write_bytes(text("mine"))
    return project


def lock_of(tree: Tree, options: Options) -> Lock:
    return Lock.of(tree, options, vextract="0.1.0", source_kind="wheel", source_sha256="a" * 64)


def create(target: Path, tree: Tree, options: Options) -> Path:
    data = {"lock_data": lock.dump(lock_of(tree, options)), "base_data": base.dump(base.collect_from_tree(tree))}
    apply.create(target, plan_new(tree), **data)
    return target


def git(root: Path, *arguments: str, code: int = 0) -> str:
    """Run Git in a directory; return all that it says."""
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def replace_once(path: Path, old: str, new: str) -> None:
    """Edit a file at the one place that has this text."""
    whole = path.read_text(encoding="utf-8")
    assert whole.count(old) == 1, (path, old)
    path.write_text(whole.replace(old, new), encoding="utf-8")


def carry_out(plan: Plan, project: Path) -> dict[str, tuple[Verdict, Reason]]:
    """Do what a plan says, and return its verdicts."""
    for path in plan.removals():
        (project / path).unlink()
    for path, data in plan.writes().items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_bytes(data)
    return {action.path: (action.verdict, action.reason) for action in plan.actions}


@dataclass(frozen=True)
class Ready:
    """An upgrade that is worked out."""

    project: Path
    plan: Plan
    seen: Mapping[str, bytes | None]
    lock_data: bytes
    base_data: bytes

    def run(self, project: Path | None = None) -> None:
        data = {"lock_data": self.lock_data, "base_data": self.base_data}
        apply.upgrade(project or self.project, self.plan, self.seen, **data, title="verl 0.5.0 -> verl 0.6.1")


def ready(
    project: Path,
    new: Tree,
    options: Options,
    successors: Mapping[str, Successor] | None = None,
    renamed: Callable[[str], str | None] | None = None,
) -> Ready:
    """Work out an upgrade to a tree."""
    old = lock.read(project)
    paths = {file.path for file in old.files} | {file.path for file in new}
    found = read_files_on_disk(project, paths)
    below = [path for path in (project / "orphaned").rglob("*") if path.is_file()]
    parked = {path.relative_to(project).as_posix(): path.read_bytes() for path in below}
    sides = UpgradeInputs(old, base.read(project, old), new, found, successors or {}, LABELS, parked)
    renamed = renamed or KeyRenames(old.options.verl, options.verl)
    plan = plan_upgrade(replace(sides, settings=carry_settings(sides.base, found, new, renamed)))
    return Ready(
        project,
        plan,
        {path: item.data for path, item in found.items()},
        lock.dump(lock_of(new, options)),
        base.dump(base.collect_from_tree(new)),
    )


def picture(project: Path) -> dict[str, tuple[int, bytes | None]]:
    """Every file with its permissions and bytes, and every directory with its permissions, empty ones as well."""
    found: dict[str, tuple[int, bytes | None]] = {}
    for folder, folders, names in os.walk(project):
        for name in (*folders, *names):
            path = Path(folder) / name
            data = path.read_bytes() if name in names else None
            found[path.relative_to(project).as_posix()] = (stat.S_IMODE(path.lstat().st_mode), data)
    return found


def expected(before: Mapping[str, tuple[int, bytes | None]], plan: Plan) -> dict[str, bytes]:
    """The files that a plan leaves, without those of vextract itself."""
    files = {path: data for path, (_, data) in before.items() if data is not None}
    for path in plan.removals():
        files.pop(path, None)
    files.update(plan.writes())
    return own(files)


def own(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if not path.startswith(".vextract/") and path != lock.NAME}


def files_of(project: Path) -> dict[str, bytes]:
    return {path: data for path, (_, data) in picture(project).items() if data is not None}


# Kills and errors at any call by which a process changes a disk.

CALLS = ("write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "chmod")


class Killed(BaseException):
    """The process is no more; nothing that it does from here on reaches the disk."""


@dataclass
class Faults:
    """Counts the calls of these names, and fails at one of them: from that one on where it is `for_good`."""

    at: int | None
    failure: Callable[[str], None]
    for_good: bool = False
    names: tuple[str, ...] = CALLS
    calls: list[str] = field(default_factory=list)

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            if self.at is not None and (number == self.at or (self.for_good and number > self.at)):
                if name == "write" and number == self.at:
                    # What a kill or a full disk leaves is the first part.
                    handle, data = arguments
                    real(handle, bytes(data)[: len(data) // 2])
                self.failure(name)
            return real(*arguments, **options)

        return call


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    real = {name: getattr(os, name) for name in faults.names}
    for name, function in real.items():
        setattr(os, name, faults.wrap(name, function))
    try:
        yield faults
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def kill(name: str) -> None:
    raise Killed(name)


def error(number: int) -> Callable[[str], None]:
    def fail(name: str) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def killing(at: int | None) -> Faults:
    return Faults(at, kill, for_good=True)
