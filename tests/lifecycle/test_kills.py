"""Killed at any write, flush, rename or removal: the project is the old one, or the new one, or one command away."""

import contextlib
import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.pipeline.plan import Verdict
from extractor.project import journal, location, lock
from extractor.project.journal import Phase
from extractor.values.errors import CheckFailed
from tests.lifecycle.worlds import (
    CALLS,
    MOVED,
    NEW,
    NEW_TREE,
    Faults,
    Killed,
    Ready,
    edit,
    error,
    files_of,
    injected,
    killing,
    picture,
    ready,
    text,
)


@pytest.fixture
def edited(small: Path) -> Path:
    """With an edit for every verdict, but for conflicts."""
    return edit(small)


@pytest.fixture
def conflicting(small: Path) -> Path:
    """With conflicts as well, of both kinds."""
    return edit(small, conflicts=True)


def prepared(project: Path) -> Ready:
    return ready(project, NEW_TREE, NEW, MOVED)


def copy(of: Path, name: str) -> Path:
    return Path(shutil.copytree(of, of.parent / name, symlinks=True))


def killed(do: Callable[..., object], *arguments: object, at: int) -> bool:
    """Do what is killed at a call; False where it has fewer calls."""
    try:
        with injected(killing(at)):
            do(*arguments)
    except Killed:
        return True
    return False


def unfinished(target: Path) -> Phase | None:
    entry = journal.read(target)
    return None if entry is None else journal.read_phase(target, entry)


def undisturbed(entry: Ready, original: Path, *names: str) -> tuple[Path, int]:
    """A copy of the project that is upgraded, and how many calls that took."""
    whole = copy(original, "whole")
    with injected(Faults(None, error(0), names=names or CALLS)) as counted:
        entry.run(whole)
    return whole, len(counted.calls)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["edited", "conflicting"])
def test_killed_anywhere(kind: str, request: pytest.FixtureRequest) -> None:
    """At every call, and out of there both ways."""
    original: Path = request.getfixturevalue(kind)
    before, entry = picture(original), prepared(original)
    whole, size = undisturbed(entry, original)
    after, conflicts = picture(whole), bool(entry.plan.paths(Verdict.CONFLICT))
    outcomes: Counter[str] = Counter()
    for at in range(size):
        target = copy(original, "killed")
        assert killed(entry.run, target, at=at)
        phase = unfinished(target)
        if phase is None:
            # No journal: nothing has been changed, or everything has; the command sweeps up what was being prepared.
            assert command(["upgrade", str(target), "--abort"]) == 2
            found = picture(target)
            assert found in (before, after), f"a kill at call {at}"
            outcomes["old" if found == before else "new"] += 1
        else:
            half_way = pytest.raises(CheckFailed, match=r"interrupted half way: verl 0\.5\.0 -> verl 0\.6\.1")
            with half_way if phase is Phase.HALF_WAY else contextlib.nullcontext():
                location.find(target)
            twin = copy(target, "twin")
            assert command(["upgrade", str(target), "--abort"]) == 0
            assert picture(target) == before, f"--abort after a kill at call {at}"
            assert command(["upgrade", str(twin), "--continue"]) == (1 if conflicts else 0)
            assert picture(twin) == after, f"--continue after a kill at call {at}"
            outcomes[phase.value] += 1
            shutil.rmtree(twin)
        shutil.rmtree(target)
    assert outcomes[Phase.HALF_WAY.value] > sum(outcomes.values()) / 2


@pytest.mark.slow
@pytest.mark.parametrize("way", ["--abort", "--continue"])
def test_killed_while_getting_out(way: str, conflicting: Path) -> None:
    before, entry = picture(conflicting), prepared(conflicting)
    whole, size = undisturbed(entry, conflicting)
    after = picture(whole)
    for at in (size // 2, size - 1):
        half = copy(conflicting, "half")
        assert killed(entry.run, half, at=at)
        for again in range(0, size, 3):
            target = copy(half, "target")
            done = not killed(command, ["upgrade", str(target), way], at=again)
            if unfinished(target) is not None:
                other = copy(target, "other")
                assert command(["upgrade", str(other), "--abort"]) == 0
                assert picture(other) == before
                shutil.rmtree(other)
                if unfinished(target) is Phase.HALF_WAY:
                    assert command(["upgrade", str(target), "--continue"]) == 1
                    assert picture(target) == after
            elif way == "--abort":
                command(["upgrade", str(target), "--abort"])
                assert picture(target) == before
            shutil.rmtree(target)
            if done:
                break
        shutil.rmtree(half)


def interrupt(name: str) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_an_error_anywhere_undoes_everything(edited: Path) -> None:
    before, entry = picture(edited), prepared(edited)
    whole, size = undisturbed(entry, edited)
    after = picture(whole)
    # 0 is Ctrl-C, which is no error of the disk's.
    for at, number in zip(range(size), itertools.cycle([errno.ENOSPC, errno.EACCES, 0]), strict=False):
        target = copy(edited, "target")
        message = ""
        try:
            with injected(Faults(at, error(number) if number else interrupt)):
                entry.run(target)
        except CheckFailed as failed:
            message = failed.message
            assert os.strerror(number) in message
            assert "nothing was changed" in message
        except KeyboardInterrupt:
            message = "interrupted"
            command(["upgrade", str(target), "--abort"])  # sweeps up what was being prepared
        assert picture(target) == (before if message else after), f"an error at call {at}"
        shutil.rmtree(target)


def test_a_disk_that_stays_full(edited: Path) -> None:
    before, entry = picture(edited), prepared(edited)
    writes = undisturbed(entry, edited, "write")[1]
    for at in range(writes):
        target = copy(edited, "target")
        faults = Faults(at, error(errno.ENOSPC), for_good=True, names=("write",))
        with injected(faults), pytest.raises(CheckFailed, match="No space left on device") as failed:
            entry.run(target)
        if "nothing was changed" not in failed.value.message:
            assert "--abort` undoes it" in failed.value.message
            assert command(["upgrade", str(target), "--abort"]) == 0
        assert picture(target) == before
        shutil.rmtree(target)


PROGRAM = """
import os, signal, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.lifecycle.worlds import Faults, injected
from tests.lifecycle.worlds import MOVED, NEW, NEW_TREE, ready
entry = ready(Path({target!r}), NEW_TREE, NEW, MOVED)
with injected(Faults({at}, lambda name: os.kill(os.getpid(), signal.SIGKILL), for_good=True)):
    entry.run()
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [3, 33, 60])
def test_really_killed(edited: Path, at: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = picture(edited)
    whole = copy(edited, "whole")
    prepared(whole).run()
    program = PROGRAM.format(root=str(Path(__file__).parents[2]), target=str(edited), at=at)
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    twin = copy(edited, "twin")
    if unfinished(edited) is None:
        assert command(["upgrade", str(edited), "--abort"]) == 2
        assert picture(edited) == before
        return
    for words, code in ((["sync"], 1), (["upgrade"], 1), (["status"], 0), (["status", "--check"], 1)):
        assert command([words[0], str(edited), *words[1:]]) == code
    assert "error: an upgrade was interrupted half way: verl 0.5.0 -> verl 0.6.1" in capsys.readouterr().err
    assert command(["upgrade", str(edited), "--abort"]) == 0
    assert picture(edited) == before
    assert command(["upgrade", str(twin), "--continue"]) == 0
    assert picture(twin) == picture(whole)


def test_work_done_since_is_not_dropped(conflicting: Path) -> None:
    before = files_of(conflicting)
    for aside in ("main.py", "main.py.2"):
        prepared(conflicting).run()
        (conflicting / "main.py").write_bytes(text("half resolved", aside))
        assert command(["upgrade", str(conflicting), "--abort"]) == 0
        after = files_of(conflicting)
        assert after[f".vextract/aborted/{aside}"] == text("half resolved", aside)
    left = {path: data for path, data in after.items() if "aborted" not in path}
    assert left == before


def test_a_file_that_is_written_between_a_kill_and_the_way_on(edited: Path) -> None:
    entry = prepared(edited)
    assert killed(entry.run, edited, at=40)
    (edited / "toy/protocol.py").write_bytes(text("written since"))
    found = journal.read(edited)
    assert found is not None
    with pytest.raises(CheckFailed, match=r"toy/protocol\.py: changed since the upgrade began"):
        journal.go_forward(edited, found)
    assert (edited / "toy/protocol.py").read_bytes() == text("written since")


def test_what_changes_while_the_upgrade_is_worked_out(edited: Path) -> None:
    entry = prepared(edited)
    protocol = edited / "toy/protocol.py"
    for change, said in (
        (lambda: protocol.write_bytes(text("since")), r"toy/protocol\.py: changed while the upgrade"),
        (lambda: shutil.rmtree(edited), "the project is gone; nothing was changed"),
    ):
        change()
        before = picture(edited)
        with pytest.raises(CheckFailed, match=said):
            entry.run()
        assert picture(edited) == before
    assert not edited.exists()


def test_a_directory_that_leads_out_of_the_project(edited: Path) -> None:
    outside = Path(shutil.copytree(edited / "toy", edited.parent / "outside"))
    before = files_of(outside)
    shutil.rmtree(edited / "toy")
    (edited / "toy").symlink_to(outside)
    with pytest.raises(CheckFailed, match="toy is a link"):
        prepared(edited).run()
    assert files_of(outside) == before
    assert lock.read(edited).options.verl == "0.5.0"


def test_a_damaged_journal(conflicting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared(conflicting).run()
    path = conflicting / journal.PATH
    path.write_bytes(path.read_bytes()[:-50])
    for way in ("--continue", "--abort"):
        assert command(["upgrade", str(conflicting), way]) == 1
        assert "journal.zip cannot be read" in capsys.readouterr().err
