"""Reward functions that limit their time by signals or processes, as graders do, under verl's own manager."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.project.running import SMALL, forked
from tests.project.support import Configuration, Maker, copy_of
from tests.releases import NEWEST

# Scores the share of the letter 1, and shows where it ran; what is slow scores -1.
REWARD = """
import signal
import threading
import time


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
FORKS = """
import multiprocessing
import threading
import time


def half(queue):
    queue.put(0.5)


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=half, args=(queue,))  # as multiprocessing.Process(...)
    process.start()
    score = queue.get(timeout=20)
    process.join()
    ended = context.Process(target=time.sleep, args=(60,))
    ended.start()
    ended.terminate()  # before it has begun
    ended.join(20)
    return {"score": score, "here": ended.exitcode == -15 and threading.current_thread() is threading.main_thread()}
"""
BY_MATH_VERIFY = """
import threading
from math_verify import parse, verify


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    score = 0.5 * verify(parse(r"$\\frac{1}{2}$"), parse("0.5"))
    return {"score": score, "here": threading.current_thread() is threading.main_thread()}
"""
PLAIN = """
import threading


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": 0.5, "here": threading.current_thread() is threading.main_thread()}
"""


@pytest.fixture
def project(made: Maker, tmp_path: Path) -> Path:
    """A project whose managers score one response each time."""
    configuration = Configuration(NEWEST[-1], "hf", features=("reward_managers",))
    return copy_of(made(configuration), tmp_path)


def ran(project: Path, text: str, *more: str, file: str = "graders.py") -> subprocess.CompletedProcess[str]:
    """A run of two steps with a reward function of one's own."""
    (project / file).write_text(text)
    chosen = ("reward.reward_manager.name=naive", f"reward.custom_reward_function.path={file}")
    return forked(project, "main.py", *SMALL, "trainer.default_local_dir=run", *chosen, *more)


def seen(project: Path, done: subprocess.CompletedProcess[str]) -> list[tuple[float, float]]:
    """Of each step, the share of samples that were scored in the main thread, and their mean score."""
    assert done.returncode == 0, done.stderr
    assert "interrupted" not in done.stderr
    rows = map(json.loads, (project / "run/metrics.jsonl").read_text().splitlines())
    return [(row["reward/here/mean"], row["critic/score/mean"]) for row in rows]


@pytest.mark.parametrize("at_hand", [True, False])
def test_a_function_that_needs_signals_runs_in_the_main_thread(project: Path, at_hand: bool) -> None:
    if at_hand:  # a hook that calls what was copied beside it
        (project / "toy/custom/from_run").mkdir()
        (project / "toy/custom/from_run/graders.py").write_text(REWARD)
        hook = "from toy.custom.from_run.graders import compute_score\n"
        found = seen(project, ran(project, hook, file="toy/custom/verl_reward.py"))
    else:
        found = seen(project, ran(project, REWARD))
    assert [here for here, _ in found] == [1.0, 1.0]
    assert -1 < found[0][1] < 1  # some were stopped


@pytest.mark.parametrize(
    ("text", "here"),
    [(FORKS, 1.0), (BY_MATH_VERIFY, 1.0), (PLAIN, 0.0)],
    ids=["forks and ends processes", "has an alarm set", "runs several at once"],
)
def test_a_function_runs_in_the_main_thread_where_it_has_to(project: Path, text: str, here: float) -> None:
    assert seen(project, ran(project, text)) == [(here, 0.5)] * 2


def test_what_it_raises_there_is_named(project: Path) -> None:
    done = ran(project, REWARD, "+reward.custom_reward_function.reward_kwargs.fail=true")
    assert done.returncode != 0
    assert "error: the reward raised KeyError: 'MainThread'" in done.stderr
    assert "graders.py:" in done.stderr
