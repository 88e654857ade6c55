"""A scoring function over many samples: order, time limits, errors, and processes that are gone afterwards."""

import asyncio
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.slow  # starts processes

Library = Callable[[str], ModuleType]
Workers = Callable[[], set[psutil.Process]]


def samples(*texts: str) -> list[dict[str, object]]:
    return [{"data_source": "d", "solution_str": text, "ground_truth": "", "extra_info": None} for text in texts]


@pytest.fixture
def workers() -> Workers:
    """The processes that score for a test, of which those of other tests may not have ended yet."""

    def grandchildren() -> set[psutil.Process]:
        found = set()
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE and child.ppid() != os.getpid():
                    found.add(child)
        return found

    before = grandchildren()
    return lambda: grandchildren() - before


@pytest.mark.parametrize("num_workers", [0, 2])
def test_scores_come_in_order_and_the_first_sample_that_raises_is_named(
    library: Library, functions: ModuleType, num_workers: int, workers: Workers
) -> None:
    scoring, aside = library("scoring"), library("scoring_aside").ScorerAside
    with closing(aside(functions.length, num_workers)) as scorer:
        results = scorer(samples(*("a" * n for n in range(200))))
    assert [result["score"] for result in results] == list(range(200))
    for text, message in (
        ("raise", "the reward raised KeyError: 'no such key'"),
        ("exit", "the reward raised SystemExit: enough"),
        ("nothing", r"a dict without `score`; it has value"),
    ):
        scorer = aside(functions.unreliable, num_workers)
        with closing(scorer), pytest.raises(scoring.ScoringError, match=message) as caught:
            scorer(samples("a", "bb", text, "cc", "raise"))
        assert caught.value.row == 2
        assert "scored_by.py:" in caught.value.hook_file
    assert workers() == set()


def test_samples_that_hang_or_kill_their_process_cost_themselves_only(
    library: Library, functions: ModuleType, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    scorer = library("scoring_aside").ScorerAside(functions.unreliable, num_workers=2, timeout=1.0, timeout_score=-1.0)
    start = time.monotonic()
    results = scorer(samples("a", "hang", "bb", "spin", "die", "ccc"))
    scorer.close()
    assert time.monotonic() - start < 15
    assert [result["score"] for result in results] == [1, -1, 2, -1, -1, 3]
    assert [result["unscored"] for result in results] == [0, 1, 0, 1, 1, 0]
    assert [result["text"] for result in results] == ["a", "", "bb", "", "", "ccc"]
    assert capsys.readouterr().out.count("warning: a sample took longer than 1 s and scores -1") == 1
    assert workers() == set()


def test_coroutines_run_at_once_and_have_a_time_limit(library: Library, functions: ModuleType) -> None:
    scoring = library("scoring")
    scorer = library("scoring_aside").ScorerAside(functions.waiting, timeout=1.0, timeout_score=0.5)
    start = time.monotonic()
    results = scorer(samples(*["aa"] * 60, "hang"))
    assert time.monotonic() - start < 30  # one after another: 66 s
    assert [result["score"] for result in results] == [2.0] * 60 + [0.5]
    assert [result["unscored"] for result in results] == [0.0] * 60 + [1.0]
    with pytest.raises(scoring.ScoringError, match="raised KeyError") as caught:
        scorer(samples("aa", "raise", "hang"))
    assert caught.value.row == 1
    assert "scored_by.py:" in caught.value.hook_file

    async def leave(**sample: Any) -> float:
        sys.exit("enough")

    async def in_a_loop() -> Any:
        return scorer(samples("aa"))

    assert asyncio.run(in_a_loop())[0]["score"] == 2.0
    # One that would end the loop is an error where it said so: else the run would wait for it for ever.
    last, said = library("scoring_aside").ScorerAside(leave), "raised SystemExit: enough"
    with closing(last), pytest.raises(scoring.ScoringError, match=said):
        last(samples("aa"))


def test_a_function_of_a_file_is_found_by_processes(library: Library, tmp_path: Path) -> None:
    """As verl loads `custom_reward_function.path`: under a name that nobody can import, wrapped in a partial."""
    file, calls = tmp_path / "mine.py", library("scoring")
    file.write_text("def score(solution_str, bonus, **sample):\n    return len(solution_str) + bonus\n")
    spec = importlib.util.spec_from_file_location("custom_module_123", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = partial(module.score, bonus=0.5)
    assert calls.importable(function) is function
    assert pickle.loads(pickle.dumps(function))("ab") == 2.5  # as managers that score by a pool do it
    with closing(library("scoring_aside").ScorerAside(function, num_workers=1)) as scorer:
        assert [result["score"] for result in scorer(samples("a", "bb"))] == [1.5, 2.5]
    assert calls.source_of(function) == f"{file}:1"
    del sys.modules["custom_module_123"]


def test_a_function_that_hangs_here_is_left_as_well(
    library: Library, functions: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the main thread, and in another one."""
    scorer = library("scoring_aside").ScorerAside(functions.unreliable, timeout=0.5, timeout_score=-1.0)
    with ThreadPoolExecutor(max_workers=1) as background:
        for call in (lambda function, *given: function(*given), lambda *given: background.submit(*given).result()):
            results = call(scorer, samples("a", "hang", "b"))
            assert [result["unscored"] for result in results] == [0.0, 1.0, 0.0]
            assert results[1]["score"] == -1.0
    assert "took longer than 0.5 s" in capsys.readouterr().out
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pytest.raises(ValueError, match="define it at the top of a module"):
        library("scoring_aside").ScorerAside(lambda **sample: 1.0, num_workers=1)


SCRIPT = """
import signal, sys
sys.path.insert(0, {folder!r})
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background of a shell ignore it
    import scored_by
    from reward_library.scoring_aside import ScorerAside
    scorer = ScorerAside(scored_by.unreliable, num_workers=2)
    scorer([dict(solution_str="a")])
    print("scoring", flush=True)
    scorer([dict(solution_str=text) for text in ("spin", "hang", "hang")])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_one_that_scores(folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Also one that computes a number for ever, and hears no signal meanwhile. Ctrl-C goes to the whole group."""
    (tmp_path / "scores.py").write_text(SCRIPT.format(folder=str(folder)))
    command = [sys.executable, str(tmp_path / "scores.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        assert process.stdout.readline() == b"scoring\n"
        time.sleep(0.5)
        started = psutil.Process(process.pid).children(recursive=True)
        assert len(started) >= 3
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.wait(10)
    _, alive = psutil.wait_procs(started, timeout=10)
    assert [child.cmdline() for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []


def test_what_is_not_reported_is_none_and_a_sample_out_of_time_has_failed(library: Library) -> None:
    """The latter in the components of its own data source only."""
    late = {"score": -1.0, "unscored": 1.0}
    given: list[dict[str, Any]] = [{"score": 1.0}, {"score": 0.5, "acc": True, "pred": "x"}, late, late]
    none = {"acc": None, "pred": None, "unscored": None}
    assert library("scoring_aside").filled(given, ["a", "b", "b", "a"]) == [
        {**none, "score": 1.0},
        {"score": 0.5, "acc": True, "pred": "x", "unscored": None},
        {"score": -1.0, "acc": 0.0, "pred": "", "unscored": 1.0},
        {**none, **late},
    ]
