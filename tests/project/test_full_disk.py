"""What takes a file that the disk refuses, and an error in a script, are said in plain text."""

import errno
import os
from pathlib import Path

import pytest

from tests.project.running import check_forked, overrides, python
from tests.project.support import Configuration, Maker, copy_of
from tests.releases import NEWEST

# The kernel refuses larger files, as it refuses what a full disk has no room for, and no library can tell why.
# Python 3.11 takes a bytecode file that was cut short for a whole one, so none is written.
LIMITED = """
import resource, runpy, sys
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
sys.argv = {words}
{run}
"""
SCRIPT = "from toy import LocalPPOTrainer, load_config\nLocalPPOTrainer(load_config('trainer.logger=[console]'){more})"
FULL = f"error: the disk takes no more: {os.strerror(errno.EFBIG)}\nhint: make room, or "


def limited(root: Path, limit: int, *words: str) -> str:
    """Run main.py, a module, or SCRIPT with a limit of the size of files; returns what it says of its failure."""
    if words[0] == "main.py":
        run = "runpy.run_path('main.py', run_name='__main__')"
    elif words[0] == "script":
        run = SCRIPT.format(more="")
    else:
        run = f"runpy.run_module('{words[0]}', run_name='__main__', alter_sys=True)"
    done = check_forked(root, "-c", LIMITED.format(limit=limit, words=list(words), run=run), code=1)
    assert "Traceback" not in done.stderr
    assert "rank0" not in done.stderr
    return done.stderr


@pytest.fixture
def toy(made: Maker, tmp_path: Path) -> Path:
    return copy_of(made(Configuration(NEWEST[-1], "hf", features=("hub", "verl_checkpoints"))), tmp_path)


@pytest.mark.slow
def test_a_disk_is_full(toy: Path) -> None:
    """While the toy model's weights are written, by main.py or a script; and what a command writes."""
    assert FULL in limited(toy, 20_000, "main.py", *overrides())
    assert FULL in limited(toy, 20_000, "script")
    check_forked(toy, "main.py", *overrides())
    (run,) = toy.glob("checkpoints/*/*")
    assert FULL in limited(toy, 500, "toy.to_verl", str(run), "theirs", "--processes", "2")
    assert [*toy.glob("theirs/*")] == []


@pytest.mark.slow
def test_an_error_in_a_script_is_plain(toy: Path) -> None:
    """An error that can be put right has no traceback; any other has Python's own, in one process without its rank."""
    done = check_forked(toy, "-c", SCRIPT.format(more=", train_dataset=[{'prompt': ''}]"), code=1)
    assert "error: train_dataset, row 0: the prompt is empty\nhint: " in done.stderr
    assert "Traceback" not in done.stderr
    done = check_forked(toy, "-c", SCRIPT.format(more="") + "\nraise RuntimeError('mine')", code=1)
    assert "Traceback" in done.stderr
    assert "\nRuntimeError: mine\n" in done.stderr
    assert "rank0" not in done.stderr


def test_a_run_says_something_before_it_loads_torch(toy: Path) -> None:
    without = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv = ['main.py'];"
        "runpy.run_path('main.py', run_name='__main__')"
    )
    done = python(toy, "-c", without)
    assert done.stderr.startswith("loading torch and transformers"), done.stderr
