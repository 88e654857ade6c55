# vextract:template
"""Tests of a program, in the forms that data sets have them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMS = (
    "tests are {'inputs': [...], 'outputs': [...]}, of equal length, with 'fn_name' if they are arguments and values, "
    "{'asserts': [...]}, or {'test': source, 'entry_point': name}"
)


@dataclass(frozen=True)
class CodeTests:
    """Tests of a program.

    Attributes:
        inputs: what it reads from standard input, one run each.
        outputs: what it must print for each.
        judged: tests of what it defines, as `sandbox.judge_program` takes them; empty: none.
    """

    inputs: list[str]
    outputs: list[str]
    judged: dict[str, Any]

    @classmethod
    def read(cls, tests: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str) -> "CodeTests":
        """Read the tests of a task.

        Args:
            tests: a mapping, or JSON of one. These forms, or several of them at once:

                - inputs, outputs: the program reads the one and must print the other (spaces at the ends of lines and
                  empty lines at the end do not count).
                - inputs, outputs, fn_name (APPS, TACO): lists of arguments, and values; also as JSON, with a line for
                  each argument (LiveCodeBench). fn_name is a function, or a method of `Solution`.
                - asserts (MBPP: test_list): statements; each is a test.
                - test (HumanEval): source text with `check(candidate)`, `test_...` functions (by pytest, where they
                  import it or have parameters) or a unittest.TestCase, each of which is a test, or with statements.

                Besides: setup (MBPP: test_setup_code, test_imports) is run before asserts and test; entry_point is the
                name of what they test, or as "Solution().f". A list of {"input", "output", "testtype"} is one of
                LiveCodeBench.

        Raises:
            ValueError: it is none of these.
        """
        if isinstance(tests, str):
            try:
                tests = json.loads(tests)
            except ValueError as error:
                raise ValueError(f"{FORMS}; this string is not valid JSON") from error
        if not isinstance(tests, str | Mapping):
            tests = _of_cases(tests)
        if not isinstance(tests, Mapping):
            raise ValueError(f"{FORMS}; got {tests!r}")
        inputs, outputs = _list(tests, "inputs"), _list(tests, "outputs")
        asserts = [str(test) for test in _list(tests, "asserts") or _list(tests, "test_list")]
        module = tests.get("test") or ""
        if not isinstance(module, str):
            raise ValueError(f"{FORMS}; its test is a {type(module).__name__}, not source text")
        if len(inputs) != len(outputs) or not (inputs or asserts or module):
            raise ValueError(f"{FORMS}; got {len(inputs)} inputs, {len(outputs)} outputs, {len(asserts)} asserts")
        name = tests.get("fn_name") or tests.get("func_name")
        calls = [(name, _arguments(i), _expected(o)) for i, o in zip(inputs, outputs, strict=True)] if name else []
        if asserts or module or calls:
            setup = "\n".join(
                [*_list(tests, "test_imports"), tests.get("test_setup_code") or "", tests.get("setup") or ""]
            )
            judged = {"setup": setup, "entry_point": tests.get("entry_point") or None, "asserts": asserts}
            judged |= {"module": module, "calls": calls}
        else:
            judged = {}
        given = [] if name else [(_text(i), _text(o)) for i, o in zip(inputs, outputs, strict=True)]
        return cls([i for i, _ in given], [o for _, o in given], judged)


def _of_cases(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = {case.get("fn_name") or case.get("func_name") for case in cases if case.get("testtype") == "functional"}
    if len(names) > 1 or None in names:
        raise ValueError(f"{FORMS}: functional cases need the fn_name that they call")
    return {
        "inputs": [case["input"] for case in cases],
        "outputs": [case["output"] for case in cases],
        "fn_name": next(iter(names), None),
    }


def _list(tests: Mapping[str, Any], name: str) -> list[Any]:
    value = tests.get(name)
    return [] if value is None else list(value)  # parquet gives None for what other rows have


def _text(value: Any) -> str:
    """Return a text; data sets may have it as a list of its lines."""
    return "\n".join(str(line) for line in value) if isinstance(value, list | tuple) else str(value)


def _arguments(given: Any) -> list[Any]:
    if isinstance(given, str):
        return [json.loads(line) for line in given.split("\n") if line.strip()]
    return _plain(given)


def _expected(given: Any) -> Any:
    return json.loads(given) if isinstance(given, str) else _plain(given)


def _plain(value: Any) -> Any:
    """Return a list in place of an array, which is what parquet gives."""
    return value.tolist() if hasattr(value, "tolist") else value
