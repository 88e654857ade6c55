"""Reward functions that limit their time by signals or processes, as graders do, under verl's own manager."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.project.running import SMALL, forked

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
SETTINGS = (*SMALL, "reward.reward_manager.name=naive", "trainer.default_local_dir=run")


@pytest.mark.parametrize("at_hand", [True, False])
def test_a_function_that_needs_signals_runs_in_the_main_thread(project: Path, at_hand: bool) -> None:
    file = project / ("toy/custom/verl_reward.py" if at_hand else "graders.py")
    file.write_text(REWARD)
    if at_hand:  # a hook that calls what was copied beside it
        (project / "toy/custom/from_run").mkdir()
        file.rename(project / "toy/custom/from_run/graders.py")
        file.write_text("from toy.custom.from_run.graders import compute_score\n")
    chosen = f"reward.custom_reward_function.path={file.relative_to(project)}"
    done = forked(project, "main.py", *SETTINGS, chosen)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (project / "run/metrics.jsonl").read_text().splitlines()]
    assert [row["reward/here/mean"] for row in rows] == [1.0, 1.0]
    assert -1 < rows[0]["critic/score/mean"] < 1  # some were stopped


FORKS = """
import multiprocessing
import threading


def half(queue):
    queue.put(0.5)


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=half, args=(queue,))  # as multiprocessing.Process(...)
    process.start()
    score = queue.get(timeout=20)
    process.join()
    return {"score": score, "here": threading.current_thread() is threading.main_thread()}
"""
BY_MATH_VERIFY = """
import threading
from math_verify import parse, verify


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    score = 0.5 * verify(parse(r"$\\frac{1}{2}$"), parse("0.5"))
    return {"score": score, "here": threading.current_thread() is threading.main_thread()}
"""


@pytest.mark.parametrize("function", [FORKS, BY_MATH_VERIFY])
def test_a_function_that_forks_or_has_an_alarm_set_does_so_in_the_main_thread(project: Path, function: str) -> None:
    (project / "forking.py").write_text(function)
    done = forked(project, "main.py", *SETTINGS, "reward.custom_reward_function.path=forking.py")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (project / "run/metrics.jsonl").read_text().splitlines()]
    assert [(row["reward/here/mean"], row["critic/score/mean"]) for row in rows] == [(1.0, 0.5)] * 2


def test_a_process_that_a_function_ends_is_ended_and_the_run_is_not(project: Path) -> None:
    (project / "forking.py").write_text(
        "import multiprocessing\nimport time\n\n\n"
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    process = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "    process.start()\n    process.terminate()  # before it has begun; as multiprocessing.Process(...) is\n"
        "    process.join(20)\n    return {'score': 1.0, 'ended': process.exitcode == -15}\n"
    )
    done = forked(project, "main.py", *SETTINGS, "reward.custom_reward_function.path=forking.py")
    assert done.returncode == 0, done.stderr
    assert "interrupted" not in done.stderr
    rows = [json.loads(line) for line in (project / "run/metrics.jsonl").read_text().splitlines()]
    assert [row["reward/ended/mean"] for row in rows] == [1.0, 1.0]


def test_what_it_raises_there_is_named(project: Path) -> None:
    (project / "graders.py").write_text(REWARD)
    chosen = ("reward.custom_reward_function.path=graders.py", "+reward.custom_reward_function.reward_kwargs.fail=true")
    done = forked(project, "main.py", *SETTINGS, *chosen)
    assert done.returncode != 0
    assert "error: the reward raised KeyError: 'MainThread'" in done.stderr
    assert "graders.py:" in done.stderr


def test_others_still_run_several_at_once(project: Path) -> None:
    (project / "waiting.py").write_text(
        "import threading\n\n\ndef compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    return {'score': 1.0, 'here': threading.current_thread() is threading.main_thread()}\n"
    )
    done = forked(project, "main.py", *SETTINGS, "reward.custom_reward_function.path=waiting.py")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (project / "run/metrics.jsonl").read_text().splitlines()]
    assert [row["reward/here/mean"] for row in rows] == [0.0, 0.0]
