"""What a hook, a scheduler or a disk does to the whole process does not cost a run its work."""

import errno
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.project.running import SMALL, check_forked, metrics_of, overrides, python, started

pytestmark = pytest.mark.slow

FEATURES = ("given_objects", "hook_checks", "reward_logs", "reward_managers", "reward_processes")
REWARD = """
import os, sys, time
import torch
calls = 0
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    global calls
    calls += 1
    {effect}
    return float(solution_str[:1] == "1")
"""
CHILDREN = """if calls == 40 and os.fork() == 0: raise KeyError("of the child")
    if calls == 41 and os.fork() == 0: sys.exit(0)
    if calls == 42 and os.fork() == 0: return 1.0
"""
EFFECTS = {
    "os.makedirs('elsewhere', exist_ok=True); os.chdir('elsewhere'); "
    "torch.set_num_threads(3); torch.set_default_dtype(torch.float64)": (
        "the working directory",
        "torch's number of threads",
        "torch's default dtype",
    ),
    CHILDREN: ("KeyError: 'of the child'", "a process that a hook has forked returns from the hook"),
    "sys.stdout.close()": (),
}


def settings(root: Path, effect: str, *more: str) -> list[str]:
    (root / "graders.py").write_text(REWARD.format(effect=effect), encoding="utf-8")
    function = "reward.custom_reward_function.path=graders.py"
    return ["main.py", *overrides(function, "trainer.save_freq=1", "trainer.default_local_dir=run", *more)]


@pytest.mark.parametrize("effect", EFFECTS, ids=["settings", "children", "stdout"])
def test_a_run_goes_on_as_it_was(project: Path, effect: str) -> None:
    done = check_forked(project, *settings(project, effect))
    assert [said for said in EFFECTS[effect] if said not in done.stderr] == []
    assert (project / "run/global_step_2").is_dir()
    assert len(metrics_of(project / "run")) == 2


def test_a_function_that_seeds_does_not_repeat_the_responses(project: Path) -> None:
    more = ("actor_rollout_ref.actor.optim.lr=0", "trainer.rollout_data_dir=rows", "trainer.total_training_steps=3")
    more += ("data.train_batch_size=24", "data.shuffle=false")
    written = []
    for effect in ("torch.manual_seed(0)", "torch.manual_seed(0)", "pass"):
        done = check_forked(project, *settings(project, effect, *more))
        assert ("a hook has seeded torch" in done.stderr) == (effect != "pass")
        rows = [(project / f"rows/{step}.jsonl").read_text(encoding="utf-8").splitlines() for step in (2, 3)]
        second, third = ([json.loads(row)["output"] for row in part] for part in rows)
        assert sum(one == other for one, other in zip(second, third, strict=True)) < len(second) / 2
        written.append(second)
        shutil.rmtree(project / "run")
        shutil.rmtree(project / "rows")
    assert written[0] == written[1], "with the numbers of the run's own seed, each time"


def test_what_ends_a_job_leaves_the_step_its_samples(project: Path) -> None:
    """A scheduler sends SIGTERM to all of a job's processes: to those that score, too."""
    more = ("local.reward.num_workers=2", "trainer.total_training_steps=50")
    process = started(project, project / "output", *settings(project, "time.sleep(0.05)", *more))
    metrics = project / "run/metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.is_file() and metrics.read_text(encoding="utf-8")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGTERM)
    code, shown = process.wait(120), (project / "output").read_text(encoding="utf-8")
    assert code == 130, shown[-3000:]
    assert "ended its process" not in shown
    rows = metrics_of(project / "run")
    assert rows
    assert all(row.get("reward/unscored/mean", 0) == 0 for row in rows)


def test_a_hook_that_imports_what_is_not_here_is_named(project: Path) -> None:
    hook = project / "toy/custom/algorithms.py"
    text = f"{hook.read_text(encoding='utf-8')}from ..tracking.provenance import surroundings\n"
    hook.write_text(text, encoding="utf-8")
    done = check_forked(project, "main.py", *overrides(), code=1)
    assert "hint: vextract add provenance" in done.stderr
    assert f"hook: {hook}:{len(text.splitlines())}" in done.stderr


# A scorer that limits its time by a signal, and one that forks: both need the main thread.
LIMITED = """
import multiprocessing, signal, threading, time

def put(queue):
    queue.put(0.5)

def compute_score(data_source, solution_str, ground_truth, extra_info=None, fail=False):
    if fail:
        raise KeyError(threading.current_thread().name)
    def ring(number, frame):
        raise TimeoutError
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        time.sleep(60 * (len(solution_str) % 2))
        score = 1.0
    except TimeoutError:
        score = -1.0  # what is slow
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return {"score": score, "here": threading.current_thread() is threading.main_thread()}
"""
FORKS = (
    LIMITED.partition("def compute_score")[0]
    + """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=put, args=(queue,))
    process.start()
    score = queue.get(timeout=20)
    process.join()
    return {"score": score, "here": threading.current_thread() is threading.main_thread()}
"""
)
PLAIN = """
import threading
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": 0.5, "here": threading.current_thread() is threading.main_thread()}
"""


def test_a_function_runs_in_the_main_thread_where_it_has_to(project: Path) -> None:
    def ran(text: str, *more: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        (project / "graders.py").write_text(text)
        chosen = ("reward.reward_manager.name=naive", "reward.custom_reward_function.path=graders.py")
        shutil.rmtree(project / "run", ignore_errors=True)
        return check_forked(project, "main.py", *SMALL, "trainer.default_local_dir=run", *chosen, *more, code=code)

    for text, here, scores in ((LIMITED, 1.0, (-0.999, 0.999)), (FORKS, 1.0, (0.5, 0.5)), (PLAIN, 0.0, (0.5, 0.5))):
        assert "interrupted" not in ran(text).stderr
        for row in metrics_of(project / "run"):
            assert row["reward/here/mean"] == here, text
            assert scores[0] <= row["critic/score/mean"] <= scores[1], text
    done = ran(LIMITED, "+reward.custom_reward_function.reward_kwargs.fail=true", code=1)
    assert "error: the reward raised KeyError: 'MainThread'" in done.stderr
    assert "graders.py:" in done.stderr


# The kernel refuses larger files, as it refuses what a full disk has no room for, and no library can tell why.
# Python 3.11 takes a bytecode file that was cut short for a whole one, so none is written.
LIMIT = """
import resource, runpy, sys
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
"""
MAIN = "runpy.run_path('main.py', run_name='__main__')\n"
SCRIPT = """from toy import LocalPPOTrainer, load_config
LocalPPOTrainer(load_config('trainer.logger=[console]')).assemble({more})
"""
FULL = f"error: the disk takes no more: {os.strerror(errno.EFBIG)}\nhint: make room, or "


def test_an_error_in_a_script_is_plain(project: Path) -> None:
    """What can be put right, as a disk that is full, has no traceback; else it is Python's own, without a rank."""
    words = f"sys.argv = {['main.py', *overrides()]}\n"
    for program, said in (
        (LIMIT + words + MAIN, FULL),  # while the toy model's weights are written
        (LIMIT + SCRIPT.format(more=""), FULL),
        (
            SCRIPT.format(more="[{'prompt': ''}]"),
            "error: train_dataset, row 0: the prompt is empty\nhin",
        ),
        (SCRIPT.format(more="") + "raise RuntimeError('mine')", "\nRuntimeError: mine\n"),
    ):
        done = check_forked(project, "-c", program, code=1)
        assert said in done.stderr
        assert ("Traceback" in done.stderr) == ("RuntimeError" in program)
        assert "rank0" not in done.stderr


def test_a_run_says_something_before_it_loads_torch(project: Path) -> None:
    without = f"import runpy, sys; sys.modules['torch'] = None; sys.argv = ['main.py']; {MAIN}"
    assert python(project, "-c", without).stderr.startswith("loading torch and transformers")
