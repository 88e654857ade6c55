# vextract:template
"""What a program that the model wrote is worth: the share of its tests that it passes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from . import sandbox
from .code_tests import CodeTests
from .sandbox import Limits

FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)


def extract_code(text: str) -> str:
    """Return the program in a response: the last fenced block, also if it is cut off, or else the whole text."""
    blocks = FENCED.findall(text)
    return str(blocks[-1]) if blocks else text


def run_tests(source: str, tests: Mapping[str, Any] | str, limits: Limits | None = None) -> list[str]:
    """Run a program's tests.

    Args:
        source: Python.
        tests: in one of the forms that `CodeTests.read` takes.
        limits: of each run.

    Returns:
        For each test how it went: "passed", "wrong", or why the run ended: "error", "timeout", "memory", "output".

    Raises:
        ValueError: there are no tests, or not in one of these forms, or no program could pass them.
        SandboxError: programs cannot be run here.
    """
    read = CodeTests.read(tests)
    if read.judged:
        sandbox.check_tests(read.judged, limits)
    verdicts = []
    if read.inputs:
        for run, expected in zip(sandbox.run_inputs(source, read.inputs, limits), read.outputs, strict=True):
            if run.status == "ok":
                verdicts.append("passed" if _lines(run.stdout) == _lines(expected) else "wrong")
            else:
                verdicts.append(run.status)
    if read.judged:
        run = sandbox.judge_program(source, read.judged, limits)
        failed = "wrong" if run.status == "ok" else run.status
        verdicts += ["passed" if passed else failed for passed in run.passed]
    return verdicts


def score_code(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    partial_credit: bool = True,
    limits: Limits | None = None,
) -> dict[str, float]:
    """Score a response by the tests that its program passes. Arguments as verl passes them.

    Args:
        ground_truth: the tests, as `run_tests` takes them.
        partial_credit: whether passing some of the tests is worth that share of the reward, or nothing.

    Returns:
        `score`; `acc`, 1.0 if all tests are passed, else 0.0; `passed`, the share of them; `timeout`, the share that
        ran out of time.
    """
    verdicts = run_tests(extract_code(solution_str), ground_truth, limits)
    passed = verdicts.count("passed") / len(verdicts)
    acc = float(passed == 1.0)
    late = verdicts.count("timeout") / len(verdicts)
    return {"score": passed if partial_credit else acc, "acc": acc, "passed": passed, "timeout": late}


def _lines(text: str) -> Sequence[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]
