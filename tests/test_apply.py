"""Writing: wholly old or wholly new."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from extractor.pipeline import apply
from extractor.pipeline.plan import Plan, Reason, Verdict, plan_new, plan_sync, read_digests_on_disk
from extractor.project import base, disk, lock, scratch_dir
from extractor.values.errors import CheckFailed, UsageError
from tests.test_lock import LOCK, TREE

PLAN = plan_new(TREE)
LOCK_DATA = lock.dump(LOCK)
BASE_DATA = base.dump(base.collect_from_tree(TREE))
EVERYTHING = sorted([*(file.path for file in TREE), lock.NAME, base.PATH])


def create(target: Path, plan: Plan = PLAN) -> None:
    apply.create(target, plan, lock_data=LOCK_DATA, base_data=BASE_DATA)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def sync_plan(project: Path) -> Plan:
    return plan_sync(LOCK, base.collect_from_tree(TREE), read_digests_on_disk(LOCK, project))


def test_create(tmp_path: Path) -> None:
    """An empty directory is replaced and a taken one left alone."""
    (tmp_path / "toy").mkdir()
    create(tmp_path / "toy")
    assert files(tmp_path / "toy") == EVERYTHING
    assert os.listdir(tmp_path) == ["toy"]
    assert lock.read(tmp_path / "toy") == LOCK
    assert base.read(tmp_path / "toy", LOCK) == base.collect_from_tree(TREE)
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "toy").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain/mine").write_text("mine")
    for taken in ("plain", "plain/mine"):
        with pytest.raises(UsageError, match="in the meantime"):
            create(tmp_path / taken)
    assert files(tmp_path / "plain") == ["mine"]


def failing(after: int, error: type[BaseException] | Exception) -> Callable[..., None]:
    """`disk.write_new`, which fails from the file of that number on."""
    real, calls = disk.write_new, itertools.count()

    def write(path: Path, data: bytes, mode: int | None = None) -> None:
        if next(calls) >= after:
            raise error
        real(path, data)

    return write


def test_what_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sync_plan(tmp_path)
    for error, after in itertools.product((KeyboardInterrupt, OSError(28, "No space left on device")), range(6)):
        monkeypatch.setattr(disk, "write_new", failing(after, error))
        with pytest.raises((KeyboardInterrupt, UsageError)):
            create(tmp_path / "toy")
        monkeypatch.setattr(disk, "write_new", failing(min(after, 2), error))
        with pytest.raises((KeyboardInterrupt, CheckFailed)):
            apply.restore(tmp_path, plan, base_data=BASE_DATA)
        assert os.listdir(tmp_path) == []
        monkeypatch.undo()


PROGRAM = """
import sys, time
sys.path.insert(0, {root!r})
from extractor.project import disk
from tests.test_apply import create
from pathlib import Path
real = disk.write_new
def slow(path, data, mode=None):
    real(path, data)
    print(path.name, flush=True)
    time.sleep({pause})
disk.write_new = slow
create(Path({target!r}))
"""


def started(target: Path, pause: float) -> subprocess.Popen[str]:
    program = PROGRAM.format(root=str(Path(__file__).parents[1]), target=str(target), pause=pause)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_killed_create_is_cleaned_by_the_next_run(tmp_path: Path) -> None:
    process = started(tmp_path / "toy", 0.1)
    scratch_dir.remove_leftovers(tmp_path / "toy")
    assert process.wait() == 0
    assert files(tmp_path / "toy") == EVERYTHING, "a running one is not cleaned away"
    shutil.rmtree(tmp_path / "toy")
    process = started(tmp_path / "toy", 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".toy.vextract-tmp-")
    scratch_dir.remove_leftovers(tmp_path / "to[y]")  # which is no pattern
    assert left in os.listdir(tmp_path)
    create(tmp_path / "toy")
    assert os.listdir(tmp_path) == ["toy"]


def _create(target: str) -> str:
    try:
        create(Path(target))
    except UsageError as error:
        return error.message
    return "made"


def test_two_runs_at_once(tmp_path: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        results = pool.map(_create, [str(tmp_path / "toy")] * 8)
    assert results.count("made") == 1
    assert all("in the meantime" in result for result in results if result != "made")
    assert files(tmp_path / "toy") == EVERYTHING
    assert os.listdir(tmp_path) == ["toy"]


def test_restore(tmp_path: Path) -> None:
    create(project := tmp_path / "toy")
    (project / "toy/protocol.py").unlink()
    (project / "main.py").write_bytes(b"# edited\n")
    (project / base.PATH).unlink()
    apply.restore(project, sync_plan(project), base_data=BASE_DATA)
    assert files(project) == EVERYTHING
    assert (project / "main.py").read_bytes() == b"# edited\n"
    assert (project / "toy/protocol.py").read_bytes() == b"class Protocol: ...\n"
    assert (project / base.PATH).read_bytes() == BASE_DATA


def test_restore_never_overwrites(tmp_path: Path) -> None:
    plan = sync_plan(tmp_path)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/protocol.py").write_text("came meanwhile")
    with pytest.raises(CheckFailed, match=r"toy/protocol\.py: cannot be written: it has appeared"):
        apply.restore(tmp_path, plan, base_data=None)
    assert files(tmp_path) == ["toy/protocol.py"]
    assert (tmp_path / "toy/protocol.py").read_text() == "came meanwhile"


def test_restore_does_not_leave_the_project(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "toy").symlink_to(outside)
    with pytest.raises(CheckFailed, match="toy is a link"):
        apply.restore(project, sync_plan(project), base_data=None)
    assert files(outside) == files(project) == []


def test_what_is_no_file_in_a_files_place_is_an_edit(tmp_path: Path) -> None:
    (tmp_path / "LICENSE.verl").symlink_to("nowhere")
    (tmp_path / "toy/protocol.py").mkdir(parents=True)
    assert sync_plan(tmp_path).paths(Verdict.KEEP, Reason.EDITED) == ("LICENSE.verl", "toy/protocol.py")
