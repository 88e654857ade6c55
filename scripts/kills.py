"""Kill commands at every system call that changes a disk, and count what is left: python scripts/kills.py [COMMAND...]

Each command runs in a process of its own, which `strace` kills as it enters its first, second, third... such call.
Where there is no strace, the process kills itself at that call of Python's. Then the way back and the way on are taken,
in a copy each. The exit code is 1 where a project was neither the old nor the new one, or where something was left.

--every N takes each Nth call only; --real also kills `vextract new` on verl itself, at 20 calls.
"""

import argparse
import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from extractor.cli.app import run as command  # noqa: E402
from extractor.project import journal  # noqa: E402
from extractor.project.journal import Phase  # noqa: E402
from tests.lifecycle.worlds import MOVED, NEW, NEW_TREE, OLD, OLD_TREE, create, edit, picture, ready  # noqa: E402

# What changes a disk; the kernel's names, some of which a machine may not have (`?`).
CALLS = (
    "write,pwrite64,fsync,fdatasync,?rename,?renameat,?renameat2,?unlink,unlinkat,?rmdir,?mkdir,mkdirat,"
    "?chmod,fchmod,fchmodat,?link,linkat,?symlink,symlinkat,ftruncate"
)
PROGRAM = """
import contextlib, os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.lifecycle import worlds
from tests.lifecycle.worlds import Faults, injected
from extractor.cli.app import run
at, target, kind = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
entry = worlds.ready(target, worlds.NEW_TREE, worlds.NEW, worlds.MOVED) if kind == "upgrade" else None
calls = Faults(at if at >= 0 else None, lambda name: os.kill(os.getpid(), 9), for_good=True)
def mark():
    with contextlib.suppress(OSError):
        os.open({mark!r}, os.O_RDONLY)
mark()
with injected(calls):
    if entry is not None:
        entry.run()
    elif kind == "new":
        worlds.create(target, worlds.OLD_TREE, worlds.OLD)
    else:
        run(kind.split() + [str(target)])
mark()
if at < 0:
    print(len(calls.calls))
"""
# Where there is no file: opening it shows in the list of calls where a command begins and ends.
MARK = "/vextract-kills-mark"
MOST = 10_000
# A system call, and its number among those of its name; or "call", and its number among Python's.
Call = tuple[str, int]


@dataclass
class Count:
    """Holds what came of the kills of one command."""

    kills: int = 0
    mixed: int = 0
    left: int = 0
    notes: list[str] = field(default_factory=list)

    def state(self, found: dict[str, object], allowed: Sequence[dict[str, object]], at: Call) -> None:
        """Compare a project with those that it may be, once the way back or on is taken."""
        if found in allowed:
            return
        more = sorted(set(found) - {path for one in allowed for path in one})
        if more and any({path: value for path, value in found.items() if path not in more} == one for one in allowed):
            self.left += 1
            self.notes.append(f"killed at {at[0]} {at[1]}: {', '.join(more)} is left")
        else:
            self.mixed += 1
            self.notes.append(f"killed at {at[0]} {at[1]}: neither the old project nor the new one")


class Killer:
    """Runs the program above, killed at a call."""

    def __init__(self, folder: Path, *, strace: bool) -> None:
        self.strace = strace
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM.format(root=str(ROOT), mark=MARK))
        self.log = folder / "calls.txt"
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}

    def calls(self, kind: str, target: Path) -> list[Call]:
        """Run it to its end; the calls that it can be killed at."""
        if not self.strace:
            done = self._run([], -1, kind, target)
            return [("call", number) for number in range(int(done.stdout.split()[-1]))]
        self._run(["strace", "-o", str(self.log), "-e", f"trace={CALLS},openat"], MOST, kind, target)
        found: list[Call] = []
        counted: Counter[str] = Counter()
        marks = 0
        for line in self.log.read_text(errors="replace").splitlines():
            name = line.partition("(")[0]
            marks += MARK in line
            if name.isidentifier() and name != "openat":
                counted[name] += 1
                if marks == 1:
                    found.append((name, counted[name]))
        return found

    def kill(self, at: Call, kind: str, target: Path) -> bool:
        """Run it and kill it there; False where it came to its end."""
        name, number = at
        if not self.strace:
            return self._run([], number, kind, target).returncode == -signal.SIGKILL
        # strace counts each kind of call by itself.
        tracer = ["strace", "-o", os.devnull, "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}"]
        return self._run(tracer, MOST, kind, target).returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)

    def _run(self, tracer: list[str], at: int, kind: str, target: Path) -> subprocess.CompletedProcess[str]:
        arguments = [*tracer, sys.executable, str(self.program), str(at), str(target), kind]
        return subprocess.run(arguments, capture_output=True, text=True, env=self.environment, check=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def copied(of: Path, name: str) -> Path:
    target = of.parent / name
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(of, target, symlinks=True))


def upgraded(of: Path) -> dict[str, object]:
    whole = copied(of, "whole")
    ready(whole, NEW_TREE, NEW, MOVED).run()
    return dict(picture(whole))


def settle(target: Path, before: dict[str, object], after: dict[str, object], at: Call, count: Count) -> None:
    """Take every way out of what a kill has left."""
    entry = journal.read(target)
    phase = None if entry is None else journal.read_phase(target, entry)
    twin = copied(target, "twin")
    with quiet():
        command(["upgrade", str(target), "--abort"])
    count.state(dict(picture(target)), [before] if phase is not None else [before, after], at)
    if phase is not None:
        with quiet():
            command(["upgrade", str(twin), "--continue"])
        # Where conflicts are open, the new project is there and says so.
        count.state(dict(picture(twin)), [after], at)


def sweep_upgrade(killer: Killer, folder: Path, every: int, *, conflicts: bool) -> Count:
    count = Count()
    original = edit(create(folder / "toy", OLD_TREE, OLD), conflicts=conflicts)
    before, after = dict(picture(original)), upgraded(original)
    for at in killer.calls("upgrade", copied(original, "counted"))[::every]:
        target = copied(original, "killed")
        count.kills += killer.kill(at, "upgrade", target)
        settle(target, before, after, at, count)
    return count


def sweep_way_out(killer: Killer, folder: Path, every: int, *, flag: str) -> Count:
    """Kill `--continue` and `--abort` of an upgrade that was killed half way."""
    count = Count()
    original = edit(create(folder / "toy", OLD_TREE, OLD))
    before, after = dict(picture(original)), upgraded(original)
    calls = killer.calls("upgrade", copied(original, "counted"))
    half = copied(original, "half")
    assert killer.kill(calls[len(calls) * 2 // 3], "upgrade", half)
    entry = journal.read(half)
    assert entry is not None
    assert journal.read_phase(half, entry) is Phase.HALF_WAY
    for at in killer.calls(f"upgrade {flag}", copied(half, "counted"))[::every]:
        target = copied(half, "killed")
        count.kills += killer.kill(at, f"upgrade {flag}", target)
        settle(target, before, after, at, count)
    return count


def sweep_sync(killer: Killer, folder: Path, every: int) -> Count:
    count = Count()
    original = create(folder / "toy", OLD_TREE, OLD)
    whole = dict(picture(original))
    for path in sorted((original / "toy").rglob("*.py")):
        if "custom" not in path.parts:
            path.unlink()
    for at in killer.calls("sync", copied(original, "counted"))[::every]:
        target = copied(original, "killed")
        count.kills += killer.kill(at, "sync", target)
        with quiet():
            command(["sync", str(target)])
        count.state(dict(picture(target)), [whole], at)
    return count


def sweep_new(killer: Killer, folder: Path, every: int) -> Count:
    """Kill what `new` and `adopt` write with."""
    count = Count()
    whole = dict(picture(create(folder / "whole", OLD_TREE, OLD)))
    for at in killer.calls("new", folder / "counted")[::every]:
        inside = folder / f"in-{at[0]}-{at[1]}"
        inside.mkdir()
        count.kills += killer.kill(at, "new", inside / "toy")
        if (inside / "toy").exists():
            count.state(dict(picture(inside / "toy")), [whole], at)
        else:
            create(inside / "toy", OLD_TREE, OLD)
        _nothing_beside(inside, "toy", at, count)
        shutil.rmtree(inside)
    return count


def sweep_real(killer: Killer, folder: Path, every: int, *, arguments: list[str]) -> Count:
    """Kill a command that makes a project from verl; 20 calls, from the first to the last."""
    count = Count()
    kind = " ".join(arguments)
    calls = killer.calls(kind, folder / "counted")
    whole = dict(picture(folder / "counted"))
    for at in dict.fromkeys([*(calls[len(calls) * number // 20] for number in range(20)), calls[-1]]):
        inside = folder / f"in-{at[0]}-{at[1]}"
        inside.mkdir()
        count.kills += killer.kill(at, kind, inside / "counted")
        if not (inside / "counted").exists():
            with quiet():
                command([*arguments, str(inside / "counted")])
        count.state(dict(picture(inside / "counted")), [whole], at)
        _nothing_beside(inside, "counted", at, count)
        shutil.rmtree(inside)
    return count


def _nothing_beside(folder: Path, name: str, at: Call, count: Count) -> None:
    beside = sorted(item.name for item in folder.iterdir() if item.name != name)
    if beside:
        count.left += 1
        count.notes.append(f"killed at {at[0]} {at[1]}: {', '.join(beside)} is left")


def sweeps(*, real: bool) -> dict[str, Callable[[Killer, Path, int], Count]]:
    """Return the commands that are killed, by name."""
    from functools import partial

    found: dict[str, Callable[[Killer, Path, int], Count]] = {
        "upgrade": partial(sweep_upgrade, conflicts=False),
        "upgrade with conflicts": partial(sweep_upgrade, conflicts=True),
        "upgrade --continue": partial(sweep_way_out, flag="--continue"),
        "upgrade --abort": partial(sweep_way_out, flag="--abort"),
        "sync": sweep_sync,
        "new": sweep_new,
    }
    if real:
        found["new, of verl"] = partial(sweep_real, arguments=["new"])
    return found


def measure(names: Sequence[str], *, every: int, real: bool, strace: bool) -> dict[str, Count]:
    """Kill the commands named, or all."""
    found = {}
    for name, sweep in sweeps(real=real).items():
        if names and name.split()[0].rstrip(",") not in names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "world").mkdir()
            found[name] = sweep(Killer(place, strace=strace), place / "world", every)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", help="upgrade, sync, new; all by default")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="kill at each Nth call only")
    parser.add_argument("--real", action="store_true", help="also kill `vextract new` of verl itself")
    parser.add_argument("--no-strace", action="store_true", help="let the process kill itself at calls of Python's")
    asked = parser.parse_args()
    use = shutil.which("strace") is not None and not asked.no_strace
    print(f"killed by {'strace, at system calls' if use else 'the process itself, at calls of Python'}")
    found = measure(asked.commands, every=asked.every, real=asked.real, strace=use)
    for name, count in found.items():
        print(f"{name}: {count.kills} kills, {count.mixed} mixed states, {count.left} leftovers")
        for note in count.notes[:10]:
            print(f"  {note}")
    return 1 if any(count.mixed or count.left for count in found.values()) or not found else 0


if __name__ == "__main__":
    sys.exit(main())
