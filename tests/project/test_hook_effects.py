"""What a hook, a scheduler or a disk does to the whole process does not cost a run its work."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.project.running import SMALL, check_forked, forked, metrics_of, overrides, started

pytestmark = pytest.mark.slow

FEATURES = ("hook_checks", "reward_logs", "reward_managers", "reward_processes")
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
    "sys.stdout.close()": ("stdout takes no more",),
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


# What limits its time by a signal; what is slow scores -1.
LIMITED = """
import signal, threading, time

def limited(seconds):
    def decorated(function):
        def ring(number, frame):
            raise TimeoutError

        def call(*args):
            before = signal.signal(signal.SIGALRM, ring)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            try:
                return function(*args)
            except TimeoutError:
                return -1.0
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
        return call
    return decorated

@limited(0.05)
def grade(text):
    if len(text) % 2:
        time.sleep(60)
    return 1.0

def compute_score(data_source, solution_str, ground_truth, extra_info=None, fail=False):
    if fail:
        raise KeyError(threading.current_thread().name)
    return {"score": grade(solution_str), "here": threading.current_thread() is threading.main_thread()}
"""
HALF = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    score, is_right = half()
    return {"score": score, "here": is_right and threading.current_thread() is threading.main_thread()}
"""
FORKS = """
import multiprocessing, threading, time

def put(queue):
    queue.put(0.5)

def half():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=put, args=(queue,))  # as multiprocessing.Process(...)
    process.start()
    score = queue.get(timeout=20)
    process.join()
    ended = context.Process(target=time.sleep, args=(60,))
    ended.start()
    ended.terminate()  # before it has begun
    ended.join(20)
    return score, ended.exitcode == -15
"""
BY_MATH_VERIFY = r"""
import threading
from math_verify import parse, verify

def half():
    return 0.5 * verify(parse(r"$\frac{1}{2}$"), parse("0.5")), True
"""
# Whether it runs in the main thread: where it forks and ends processes, where an alarm is set, and elsewhere.
GRADERS = ((FORKS, 1.0), (BY_MATH_VERIFY, 1.0), ("import threading\ndef half(): return 0.5, True\n", 0.0))


def ran(project: Path, text: str, *more: str, file: str = "graders.py") -> subprocess.CompletedProcess[str]:
    """A run of two steps with a reward function of one's own, whose manager scores one response each time."""
    (project / file).write_text(text)
    chosen = ("reward.reward_manager.name=naive", f"reward.custom_reward_function.path={file}")
    return forked(project, "main.py", *SMALL, "trainer.default_local_dir=run", *chosen, *more)


def seen(project: Path, done: subprocess.CompletedProcess[str]) -> list[tuple[float, float]]:
    """Of each step, the share of samples that were scored in the main thread, and their mean score."""
    assert done.returncode == 0, done.stderr
    assert "interrupted" not in done.stderr
    rows = metrics_of(project / "run")
    shutil.rmtree(project / "run")
    return [(row["reward/here/mean"], row["critic/score/mean"]) for row in rows]


def test_a_function_runs_in_the_main_thread_where_it_has_to(project: Path) -> None:
    copied, hook = project / "toy/custom/from_run/graders.py", "from toy.custom.from_run.graders import compute_score\n"
    copied.parent.mkdir()
    copied.write_text(LIMITED)
    for text, file in ((LIMITED, "graders.py"), (hook, "toy/custom/verl_reward.py")):
        (here, score), (here_as_well, _) = seen(project, ran(project, text, file=file))
        assert here == here_as_well == 1.0
        assert -1 < score < 1  # some were stopped
    for text, here in GRADERS:
        assert seen(project, ran(project, text + HALF)) == [(here, 0.5)] * 2, text


def test_what_it_raises_there_is_named(project: Path) -> None:
    done = ran(project, LIMITED, "+reward.custom_reward_function.reward_kwargs.fail=true")
    assert done.returncode != 0
    assert "error: the reward raised KeyError: 'MainThread'" in done.stderr
    assert "graders.py:" in done.stderr
