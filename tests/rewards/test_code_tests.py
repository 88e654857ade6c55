"""Tests of programs, in each form that data sets have them: honest solutions pass, wrong ones do not."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # runs programs

Library = Callable[[str], ModuleType]
Run = Callable[..., list[str]]

STACK = """
class Empty(LookupError): pass
class Stack:
    def __init__(self, *items): self.items = list(items)
    def push(self, item): self.items.append(item)
    def pop(self):
        if not self.items: raise Empty('nothing')
        return self.items.pop()
    def __len__(self): return len(self.items)
"""
HUMAN_EVAL = """
METADATA = {'author': 'me'}

def check(candidate):
    assert candidate([1.0, 2.0, 3.9], 0.3) == False
    assert candidate([1.0, 2.1, 2.2], 0.3) == True
    assert abs(poly(1.5) - 4.0) < 1e-6
"""
UNITTEST = """
import unittest
from solution import Stack, Empty

class TestStack(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.first = 1
    def setUp(self): self.stack = Stack(self.first)
    def test_pop(self):
        self.stack.push(5)
        self.assertEqual([self.stack.pop(), self.stack.pop()], [5, 1])
    def test_empty(self):
        self.stack.pop()
        with self.assertRaises(Empty): self.stack.pop()
        with self.assertRaises(LookupError): self.stack.pop()
    def test_wrong(self): self.assertEqual(len(self.stack), 7)
"""
OF_PYTEST = """
import pytest
from solution import f, Stack, Empty

@pytest.mark.parametrize("x, y", [(1, 2), pytest.param(3, 4, id="three")])
def test_each(x, y): assert f(x) == y
def test_raises():
    with pytest.raises(Empty, match="nothing") as caught: Stack().pop()
    assert "nothing" in str(caught.value)
def test_close(): assert f(0.1) == pytest.approx(1.1)
@pytest.fixture
def stack(): return Stack(1)
def test_fixture(stack, capsys, monkeypatch): assert stack.pop() == 1 and isinstance(stack, Stack)
@pytest.mark.skip
def test_skipped(): assert False
class TestMore:
    @pytest.mark.parametrize("n", range(2))
    def test_n(self, n): assert f(n) == n + 1
if __name__ == "__main__":
    pytest.main([__file__])
"""
PASSED = {
    "entry point of a class (LeetCode)": (
        "class Solution:\n    def g(self, n): return n + 1",
        {"test": "def check(candidate):\n    assert candidate(n=1) == 2", "entry_point": "Solution().g"},
    ),
    "comparisons of all kinds": (
        "def f(x): return x",
        [
            "class A:\n    n = 2\n    m = [i for i in range(n)]\nassert A.m == f([0, 1])",
            "x = f([1])\nassert all(a <= b for a, b in zip(sorted(x), sorted(x)[1:]))",
            "assert f(float('nan')) != 1 and math.isnan(f(float('nan')))",
        ],
    ),
    "values": (
        "from collections import Counter\ndef f(*a): return a\ndef g(x): return Counter(x)\nFACT = {'a': 1}",
        [
            "assert f(1, 'ä', None, True) == (1, 'ä', None, True)",
            "assert g('aab') == {'a': 2, 'b': 1}",
            "assert sorted(f(3, 1, 2)) == [1, 2, 3] and FACT['a'] == 1",
            "assert f(math.nan)[0] != 0",
        ],
    ),
    "objects": (
        STACK,
        [
            "s = Stack(1)\ns.push(2)\nassert s.pop() == 2 and len(s) == 1 and s.items == [1]",
            "try:\n  Stack().pop()\n  assert False\nexcept Empty:\n  pass",
        ],
    ),
    "a tree that the setup makes (MBPP)": (
        "class Node:\n    def __init__(self, value): self.value, self.left, self.right = value, None, None\n"
        "def depth(node): return 0 if node is None else 1 + max(depth(node.left), depth(node.right))",
        {
            "test_list": ["assert depth(root) == 3", "assert depth(root.left) == 2"],
            "test_setup_code": "root = Node(1)\nroot.left = Node(2)\nroot.left.right = Node(3)",
            "test_imports": ["import math"],
        },
    ),
    "HumanEval": (
        "def has_close(numbers, threshold):\n"
        "    return any(abs(a - b) < threshold for i, a in enumerate(numbers) for b in numbers[:i])",
        {"test": HUMAN_EVAL, "entry_point": "has_close", "setup": "def poly(x): return x + 2.5"},
    ),
    "calls (APPS)": (
        "def add(a, b): return a + b",
        '{"inputs": [[1, 2], ["a", "b"]], "outputs": [[3], "\\"ab\\""], "fn_name": "add"}',
    ),
    "calls (LiveCodeBench)": (
        "class Solution:\n    def count(self, text, letter): return text.count(letter)",
        [{"input": '"abca"\n"a"', "output": "2", "testtype": "functional", "fn_name": "count"}],
    ),
    "standard input": (
        "if __name__ == '__main__':\n    import sys\n    print(*sys.stdin.read().split(), sep=' \\n')",
        {"inputs": ["a b", ["c", "d"]], "outputs": ["a\nb", ["c", "d"]]},
    ),
}


@pytest.fixture
def run(library: Library) -> Run:
    """Run tests of a program, with time enough for a busy machine; the verdicts."""
    code, limits = library("verified_code"), library("sandbox").Limits

    def runner(source: str, tests: Any, **more: Any) -> list[str]:
        """Run a program's tests: of those that are texts alone each is an assert."""
        found = {"asserts": tests} if isinstance(tests, list) and isinstance(tests[0], str) else tests
        return code.run_tests(source, found, limits(**{"seconds": 60, **more}))

    return runner


def test_honest_solutions_pass(run: Run) -> None:
    names = ["f", "g", "h", "depth", "has_close", "add"]
    wrong = "\n".join(f"def {name}(*a): return 12345" for name in names)
    for form, (source, tests) in PASSED.items():
        verdicts = run(source, tests)
        assert set(verdicts) == {"passed"}, (form, verdicts)
        verdicts = run(wrong, tests)
        assert "passed" not in verdicts, (form, verdicts)
    assert run(STACK, {"test": UNITTEST}) == ["passed", "passed", "wrong"]  # each method is a test


DECIDED = (
    ("import math\nmath.isclose = lambda *a: True\ndef f(x): return 0", ["assert math.isclose(f(1), 5.0)"]),
    ("def f(x): return 0\ndef helper(x): return 7", {"asserts": ["assert helper(f(1)) == 7"], "entry_point": "f"}),
    # A task that is called like something of Python's is not solved by Python.
    ("x = 1", ["assert sum([1, 2]) == 3"]),
    # NaN makes each comparison false.
    ("def f(x): return float('nan')", ["assert not f(1) > 3", "assert not abs(f(1) - 2) > 0.1"]),
    ("def f(x): return [float('nan')] * 3", ["assert not any(abs(a - 1) > 0.1 for a in f(1))"]),
    # Infinity, by itself, makes NaN.
    ("def f(x): return float('inf')", ["assert not abs(f(1) - 5) / abs(f(1)) > 0.1"]),
    # Nothing is compared where nothing is answered.
    ("def f(x): return []", ["assert all(a == b for a, b in zip(f(1), [1, 2]))"]),
    ("class f:\n  def __init__(self, x): self.items = ()", ["assert all(map(int.__eq__, f(1).items, [1]))"]),
    # Of a task that is called like something of Python's, what it is compared with is not the program's.
    ("def abs(x): return 0\ndef round(x): return 7", ["assert abs(round(2.5) - 2) < 0.1"]),
    # Nor where NaN comes as a text.
    ("def f(x): return 'nan'", ["assert not abs(float(f(1)) - 1) > 0.1"]),
    # Nothing is compared with what is made of nothing.
    (
        "def f(x): return []",
        [
            "assert all(abs(a - b) < 0.1 for a, b in zip(sorted(f(1)), [1, 2]))",
            "assert all(a == b for a, b in zip([float(v) for v in f(1)], [1, 2]))",
            "r = list(f(1))\ns = [v for v in r]\nassert not any(a != b for a, b in zip(s, [1, 2]))",
        ],
    ),
    # What a program returns is not run.
    ("def f(x): return '__import__(\"os\")._exit(0)'", ["assert eval(f(1)) == 3"]),
    # Changing an argument, to what is returned.
    ("def f(x):\n    x.clear()\n    return []", ["xs = [3, 1]\nassert f(xs) == sorted(xs)"]),
    # An object that knows what it is compared with.
    (
        "class A:\n  def __contains__(self, x): return True\n  def __iter__(self): return iter([])\n"
        "  def __getitem__(self, i): return self\n  __len__ = lambda self: 3\ndef f(x): return A()",
        ["assert 7 in f(1)", "assert f(1)[0] == 3", "assert f(1)", "assert f(1) > 3", "assert f(1) + 1"],
    ),
)


def test_no_test_is_decided_by_what_it_tests(run: Run) -> None:
    for source, tests in DECIDED:
        assert "passed" not in run(source, tests), (source, tests)


def test_pairs_of_answers_are_zips(run: Run) -> None:
    """An empty answer is refused only where it is compared with what is not empty."""
    source = "def f(*x): return list(x)\ndef g(*x): return iter(x)\ndef abs(x): return x if x > 0 else -x"
    asserts = [
        "assert list(zip(f(), f())) == list(zip(f(), [])) == [] and dict(zip(f(1, 2), 'ab')) == {1: 'a', 2: 'b'}",
        "r = f(5)\nassert all(a <= b for a, b in zip(r, r[1:]))",
        "assert [*zip(g(1, 2), range(9))] == [(1, 0), (2, 1)] and [*zip(*f('ab', 'cd'))] == [('a', 'c'), ('b', 'd')]",
        "assert f(float('inf')) == [float('inf')]",
    ]
    assert set(run(source, asserts)) == {"passed"}
    assert run(source, {"asserts": ["assert max(abs(-2), 1) == 2"]}) == ["passed"]


def test_numpy_does_not_find_nothing_equal_to_something(run: Run) -> None:
    pytest.importorskip("numpy")
    asserts = [
        "assert np.allclose(f(3), 6)",
        "assert np.isclose(f(3), [6]).all()",
        "import numpy.testing as npt\nnpt.assert_allclose(f(3), 6)",
        "assert (np.array(f(3)) == 6).all()",
        "assert np.abs(np.array(f(3)) - 6).sum() < 1e-6",
        "assert np.linalg.norm(np.subtract(f(3), 6)) < 1e-6",
    ]
    empty = ("[]", "__import__('numpy').zeros((0, 1))", "'nan'")
    for source, verdict in {"2 * x": "passed", **dict.fromkeys(empty, "wrong")}.items():
        limits = {"site_packages": True, "memory_mb": 2048}
        assert set(run(f"def f(x): return {source}", asserts, **limits)) == {verdict}, source


def test_tests_of_pytest_are_run_by_it(run: Run) -> None:
    good, test = STACK + "def f(x): return x + 1\n", {"test": OF_PYTEST}
    assert run(good, test, site_packages=True) == ["passed"] * 7
    assert run(good.replace("x + 1", "2"), test, site_packages=True).count("passed") == 4
    with pytest.raises(ValueError, match="the tests write files, by tmp_path"):
        run(good, {"test": "def test_f(tmp_path): assert f(1) == 2"}, site_packages=True)


MISSING = (
    ("pytest", OF_PYTEST),
    ("numpy", "assert np.array_equal(f(1), [1])"),
    ("no_such_module", "def test_f():\n    from no_such_module import it\n    assert f(1) == it"),
)


def test_a_module_that_is_missing_is_named(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the setting lets installed ones in."""
    sandbox, run_tests = library("sandbox"), library("verified_code").run_tests
    for module, source in MISSING:
        said = rf"import {module}, which(.|\n)*hint: .*local.reward.site_packages=true"
        with pytest.raises(sandbox.TestsError, match=said):
            run_tests("raise SystemExit", {"test": source})
    tried = "try:\n    import no_such_module\nexcept ImportError:\n    pass\nassert f(1) == 1"
    assert run_tests("def f(x): return x", {"test": tried}) == ["passed"]
    pytest.importorskip("numpy")
    monkeypatch.setenv(sandbox.SITE_PACKAGES, "")
    monkeypatch.setenv(sandbox.ALLOW, "")
    sandbox.announce(True, site_packages=True)
    tests = {"asserts": ["assert np.array_equal(f(1), [1])"]}
    limits = sandbox.Limits(seconds=60, allow_unisolated=True)
    assert run_tests("import numpy\ndef f(x): return numpy.ones(1)", tests, limits) == ["passed"]


NO_TESTS = (
    {"test": "def foo(): assert f(1) == 2"},
    {"test": "function test() { assert(f(1)); }"},
    {"test": "import unittest\nclass A(unittest.TestCase):\n    def foo(self): pass\nunittest.main()"},
    {"test": "def test_f(): assert f(1) == 2", "entry_point": "f("},
    {"asserts": ["assert f(1) == "]},
    "no JSON",
    [{"input": "1", "output": "1", "testtype": "functional"}],
)


def test_tests_that_nobody_can_pass_or_fail_are_an_error_of_the_data(library: Library) -> None:
    for tests in NO_TESTS:
        for source in ("def f(x): return 2", "raise SystemExit"):
            with pytest.raises(ValueError, match="test"):
                library("verified_code").score_code("", source, tests)


def test_a_score_is_the_share_of_tests_that_pass(library: Library, run: Run) -> None:
    code = library("verified_code")
    text = "Here it is:\n```python\nn = int(input())\nprint(n * 2 if n < 10 else 0)\n```\nDone."
    tests = {"inputs": ["1", "2", "30"], "outputs": ["2", "4\n\n", "60"], "asserts": None}
    scored = code.score_code("", text, tests)
    assert scored == {"score": pytest.approx(2 / 3), "acc": 0.0, "passed": pytest.approx(2 / 3), "timeout": 0.0}
    assert code.score_code("", text, tests, partial_credit=False)["score"] == 0.0
    assert code.score_code("", "def f(): return 1", {"asserts": ["assert f() == 1"]})["acc"] == 1.0
    endless = {"seconds": 0.4, "total_seconds": 1.0}  # all runs together are limited
    assert run("while True: pass", {"inputs": ["x"] * 50, "outputs": ["x"] * 50}, **endless) == ["timeout"] * 50
    assert code.extract_code("```py\nx = 1\n```\n```python\ny = 2") == "y = 2"
