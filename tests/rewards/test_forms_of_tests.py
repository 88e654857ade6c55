"""Every form in which tests name what they test: honest programs pass, and programs that lie to the tests do not."""

import re
from collections.abc import Callable
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow  # runs programs

Library = Callable[[str], ModuleType]
Cases = dict[str, tuple[str, str, str]]

# A test of f that uses something of Python's, or what it has not imported, and is a library's wherever that is from;
# what an honest f is; and what a liar defines in the place of what the test uses, to say what it wants to hear.
USED: Cases = {
    "len": ("len(f(3)) == 3", "return [0] * x", "return 3"),
    "sorted": ("sorted(f(3)) == [0, 1, 2]", "return [2, 0, 1]", "return [0, 1, 2]"),
    "all": ("all(a == b for a, b in zip(f(2), [2, 4]))", "return [x, 2 * x]", "return True"),
    "zip": ("all(a == b for a, b in zip(f(2), [2, 4]))", "return [x, 2 * x]", "return []"),
    "abs": ("abs(f(2.5) - 5) < 1e-6", "return 2 * x", "return 0"),
    "map": ("list(map(str, f(3))) == ['3', '3']", "return [x, x]", "return ['3', '3']"),
    "isinstance": ("isinstance(f(3), str)", "return str(x)", "return True"),
    "product": ("list(product(f(2), [1])) == [(2, 1)]", "return [x]", "return [(2, 1)]"),
    "mean": ("mean(f(3)) == mean([2, 4])", "return [x]", "return 0"),
    "isclose": ("isclose(f(3), 6.0)", "return 2.0 * x", "return True"),
    "Counter": ("Counter(f(3)) == Counter([3, 3])", "return [x, x]", "return 0"),
    "reduce": ("reduce(lambda a, b: a * b, f(3)) == 9", "return [x, x]", "return 9"),
    "deepcopy": ("deepcopy(f(3)) == [3]", "return [x]", "return [3]"),
    "Decimal": ("Decimal(f(3)) == Decimal('3')", "return str(x)", "return 0"),
    "ascii_lowercase": ("set(f(3)) <= set(ascii_lowercase) and f(3)", "return 'abc'[:x]", "return 7"),
}
NUMERIC: Cases = {
    "approx": ("f(3) == approx(6.0)", "return 2.0 * x", "return None"),
    "array_equal": ("array_equal(f(3), [3, 6])", "return [x, 2 * x]", "return True"),
    "allclose": ("allclose(f(3), [3, 6])", "return [x, 2 * x]", "return True"),
}
IMPORTS = {
    "from": ("from solution import {names}", "{name}"),
    "from a package": ("from .solution import {names}", "{name}"),
    "in a folder": ("from src.solution import {names}", "{name}"),
    "star": ("from solution import *", "{name}"),
    "module": ("import solution", "solution.{name}"),
    "module as": ("import solution as s", "s.{name}"),
    "dynamic": ("import importlib\ns = importlib.import_module('solution')", "s.{name}"),
}


def forms(cases: Cases) -> dict[str, dict]:
    """Conditions, each on a function of its own, in every form of tests that docs/rewards.md names."""

    def conditions(called: str = "{name}") -> list[str]:
        return [re.sub(r"\bf\(", called.format(name=f"f_{name}") + "(", case[0]) for name, case in cases.items()]

    def functions(called: str = "{name}", *, in_class: bool = False, first: str = "") -> str:
        indent = "    " * in_class
        return "".join(
            f"{indent}def test_{n}({'self' * in_class}):\n{indent}    {first}assert {condition}\n"
            for n, condition in enumerate(conditions(called))
        )

    names = ", ".join(f"f_{name}" for name in cases)
    asserts = [f"assert {condition}" for condition in conditions()]
    found = {
        "asserts": {"asserts": asserts},
        "MBPP": {"test_list": asserts, "test_setup_code": "", "test_imports": ["import math"]},
        "each assert imports": {"asserts": [f"from solution import {names}\n{text}" for text in asserts]},
        "in the function": {"test": functions(first=f"from solution import {names}; ")},
    }
    for kind, (imports, called) in IMPORTS.items():
        imports = imports.format(names=names)
        found[f"setup: {kind}"] = {"asserts": [f"assert {text}" for text in conditions(called)], "setup": imports}
        found[f"pytest: {kind}"] = {"test": f"{imports}\n{functions(called)}"}
        for form, base in (("unittest", "unittest.TestCase"), ("plain class", "object")):
            head = f"import unittest\n{imports}\nclass TestF({base}):\n    ready = True\n"
            found[f"{form}: {kind}"] = {"test": head + functions(called, in_class=True)}
    return found


FORMS = forms(USED)
# In each run, each form and each import once.
USUAL = {name for name in FORMS if ": " not in name} | {
    f"{form}: {kind}" for form, kind in zip(("setup", "unittest", "plain class", "pytest") * 2, IMPORTS, strict=False)
}


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=() if form in USUAL else pytest.mark.thorough) for form in FORMS]
)
def test_what_tests_use_is_not_the_programs(library: Library, form: str) -> None:
    judge(library, FORMS[form], USED, library("sandbox").Limits(seconds=30))


def test_what_tests_use_of_numpy_and_pytest_is_not_the_programs(library: Library) -> None:
    pytest.importorskip("numpy")
    for form in ("asserts", "unittest: module", "pytest: star"):
        judge(library, forms(NUMERIC)[form], NUMERIC, library("sandbox").Limits(seconds=60, site_packages=True))


def judge(library: Library, tests: dict, cases: Cases, limits: object) -> None:
    """Run an honest program, which passes all tests, and two that lie about all that the tests use, and pass none."""
    run_tests = library("verified_code").run_tests
    honest = "".join(f"def f_{name}(x):\n    {case[1]}\n" for name, case in cases.items())
    wrong = "".join(f"def f_{name}(x):\n    return None\n" for name in cases)
    lies = "".join(f"def {name}(*a, **k):\n    {case[2]}\n" for name, case in cases.items())
    used = ", ".join(map(repr, cases))
    true = f"import builtins\nfor name in [*dir(builtins), {used}]:\n    globals()[name] = lambda *a, **k: True\n"
    verdicts = run_tests(honest, tests, limits)
    assert verdicts == ["passed"] * len(cases), dict(zip(cases, verdicts, strict=False))
    for liar in (wrong + lies, wrong + true):
        assert "passed" not in run_tests(liar, tests, limits), liar
