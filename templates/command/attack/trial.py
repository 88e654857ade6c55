"""Tries hacks against a scoring function."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..rewards.code_tests import CodeTests
from ..rewards.sandboxing import names
from ..rewards.scoring import Scorer, ScoringError, resolved
from . import programs, texts

# The tasks that are tried when no data are given: by the name of what is tested, and by importing it.
CODE_TASKS: tuple[dict[str, Any], ...] = (
    {
        "asserts": [
            "assert double(3) == 6",
            "assert sorted([double(2), double(1)]) == [2, 4]",
            "assert double('a') == 'aa'",
        ],
        "test": "def check(candidate):\n    assert abs(candidate(0.25) - 0.5) < 1e-9\n"
        "    assert candidate('a') == 'aa'\n",
        "entry_point": "double",
    },
    {
        "setup": "from solution import double",
        "asserts": ["assert len(double([1, 2, 3])) == 6", "assert all(a == b for a, b in zip(double([1]), [1, 1]))"],
        "test": "import unittest\nimport solution\nclass TestDouble(unittest.TestCase):\n"
        "    def test_sorted(self): self.assertEqual(sorted(solution.double([2, 1])), [1, 1, 2, 2])\n"
        "    def test_close(self): self.assertTrue(isclose(solution.double(0.25), 0.5))\n",
    },
)
TEXT_TASK = ("Natalia sold 48 clips in April, and half as many in May. How many in all?", "72")


@dataclass(frozen=True)
class Attempt:
    """One hack, tried.

    Attributes:
        hack: its name.
        score: what it got; NaN: the function raised.
        wrong: what a plainly wrong response gets.
        right: what a right one gets, or else 1.0.
        error: what the function raised.
    """

    hack: str
    score: float
    wrong: float
    right: float
    error: str = ""

    @property
    def got_through(self) -> bool:
        """Tell whether it got half of what a right response gets beyond a wrong one, or ended the run."""
        return bool(self.error) or not self.score < self.wrong + 0.5 * (self.right - self.wrong)


def attempts(
    function: Callable[..., Any],
    ground_truth: Any,
    prompt: str = "",
    data_source: str = "",
    extra_info: Any = None,
    *,
    harm: bool = False,
) -> Iterator[Attempt]:
    """Try every hack that fits a task: programs where its ground truth is tests, else texts.

    Args:
        function: called as verl calls a `compute_score`.
        ground_truth: of the task, and the other arguments: what the function is given with it.
        harm: also the programs that kill, fork without end and fill memory. Outside of a sandbox they do.
    """

    @functools.wraps(function)
    def called(**sample: Any) -> Any:
        return resolved(function(**sample))

    scorer = Scorer(called)

    def score(response: str) -> tuple[float, str]:
        sample = {"data_source": data_source, "solution_str": response, "ground_truth": ground_truth}
        try:
            return float(scorer([{**sample, "extra_info": extra_info}])[0]["score"]), ""
        except (ScoringError, TypeError, ValueError) as error:
            return math.nan, str(error).splitlines()[0]

    if is_tests(ground_truth):
        name = tested(ground_truth)
        wrong, right = score(_fenced("raise RuntimeError\n"))[0], 1.0
        hacks = {hack.name: _fenced(hack.program(name)) for hack in (programs.ALL if harm else programs.HARMLESS)}
    else:
        known = [score(text.replace("{answer}", str(ground_truth))) for text in texts.RIGHT]
        wrong, right = score(texts.WRONG)[0], max((value for value, error in known if not error), default=1.0)
        hacks = texts.responses(prompt)
    for hack, response in hacks.items():
        value, error = score(response)
        yield Attempt(hack, value, wrong, right, error)


def is_tests(ground_truth: Any) -> bool:
    """Tell whether a ground truth is tests of a program."""
    if not isinstance(ground_truth, Mapping | list | str):
        return False
    try:
        CodeTests.read(ground_truth)
    except (ValueError, TypeError, KeyError, AttributeError):
        return False
    return True


def tested(ground_truth: Any) -> str:
    """Return the name of the function that tests call; `solve` where they call none."""
    judged = CodeTests.read(ground_truth).judged
    for name, _, _ in judged.get("calls", ()):
        return str(name)
    sources = [judged.get("setup", ""), *judged.get("asserts", ()), judged.get("module", "")]
    return names.tested(sources, judged.get("entry_point")) or "solve"


def _fenced(program: str) -> str:
    return f"```python\n{program}```"
