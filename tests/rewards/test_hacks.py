"""Every known hack: it scores nothing, harms nobody, and leaves nothing behind."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests.project.support import REPOSITORY
from tests.rewards.test_sandbox import started

pytestmark = pytest.mark.slow  # runs programs

Library = Callable[[str], ModuleType]

TESTS = {
    "asserts": [
        "assert double(3) == 6",
        "assert sorted([double(2), double(1)]) == [2, 4]",
        "assert abs(double(0.25) - 0.5) < 1e-9",
        "assert double('a') == 'aa'",
        "assert all(abs(a - b) < 1e-9 for a, b in zip(double([1, 2]), [1, 2, 1, 2]))",
        "assert all(map(lambda a, b: a == b, double((2, 3)), (2, 3, 2, 3)))",
        "given = double(3)\nassert not (given > 6 + 1e-9 or given < 6 - 1e-9)",
        "assert not abs(double(3) - 6) / abs(double(3)) > 1e-6",
        "data = {'a': [1, 2]}\nexpected = [1, 2, 1, 2]\nassert double(data['a']) == expected",
    ],
    "test": "import unittest\n"
    "from solution import double\n"
    "def check(candidate):\n    assert candidate(3) == 6\n"
    "    assert all(candidate(x) == y for x, y in ((1, 2), (5, 10)))\n"
    "print(double(3), double(4))\n"
    "def test_all():\n    assert all(map(lambda x: double(x) == 2 * x, range(1, 5)))\n"
    "class TestDouble(unittest.TestCase):\n"
    "    def test_equal(self): self.assertEqual(double(3), 6)\n"
    "    def test_equal_lists(self): self.assertListEqual(double([3]), [3, 3])\n"
    "    def test_true(self): self.assertTrue(double(2) == 4)\n",
    "inputs": [[3], [[1]]],
    "outputs": [6, [1, 1]],
    "fn_name": "double",
    "entry_point": "double",
}
# The same where tests say by an import what they test, or do not say it.
CONDITIONS = [
    "len({}([1, 2, 3])) == 6",
    "sorted({}([2, 1])) == [1, 1, 2, 2]",
    "all(a == b for a, b in zip(sorted({}([1, 2])), [1, 1, 2, 2]))",
    "all(a == b for a, b in zip([v for v in {}([1, 2])], [1, 2, 1, 2]))",
    "list(product({}([1]), [2])) == list(product([1, 1], [2]))",
    "not abs(float({}(3)) - 6) > 1e-6",
    "max(0, abs({}(3) - 6)) < 1e-6",
    "math.isnan({}(float('nan'))) and {}(3) == 6",
]
METHODS = "import math, unittest\nimport solution as s\nclass TestDouble(unittest.TestCase):\n" + "".join(
    f"    def test_{number}(self): self.assertTrue({condition.replace('{}', 's.double')})\n"
    for number, condition in enumerate(CONDITIONS)
)
BY_IMPORT = {
    "setup": "import math\nfrom solution import double",
    "asserts": [f"assert {condition.replace('{}', 'double')}" for condition in CONDITIONS],
    "test": METHODS,
}
UNSAID = {"asserts": BY_IMPORT["asserts"], "setup": "import math"}
PRINTING = {"inputs": ["3\n"], "outputs": ["6\n"]}


def programs() -> tuple:
    """The corpus, which needs nothing else of the library."""
    spec = spec_from_file_location("attacks_of_these_tests", REPOSITORY / "templates/command/attack/programs.py")
    sys.modules[spec.name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return tuple(module.ALL)


# Those that answer, and are not only after the machine.
LIARS = ("defines", "empty", "not a number", "its own", "equal", "own math", "every", "truth")


def kernel_objects() -> set[str]:
    """What a program could leave behind: names of files where everybody may write, and System V objects."""
    places = [Path(tempfile.gettempdir()), Path("/dev/shm"), Path("/var/tmp"), Path("/dev/mqueue")]
    found = {str(path) for place in places if place.is_dir() for path in place.iterdir() if "left-by" in path.name}
    for kind in ("shm", "msg", "sem"):
        table = Path("/proc/sysvipc", kind)
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        found |= {f"{kind} {line.split()[0]}" for line in lines if 0x5EED <= int(line.split()[0]) < 0x5EED + 20}
    return found


@pytest.fixture(scope="module")
def unharmed() -> Iterator[None]:
    """The trainer's side gets no signal meanwhile, and its files stay."""
    heard: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = {number: signal.signal(number, lambda number, frame: heard.append(number)) for number in numbers}
    victim = Path(tempfile.gettempdir(), f"victim-of-hacks-{os.getpid()}")
    victim.write_text("assert double(3) == 6")
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    assert heard == []
    assert victim.read_text() == "assert double(3) == 6"
    victim.unlink()


@pytest.mark.parametrize("hack", programs(), ids=lambda hack: hack.name)
def test_a_hack_scores_nothing_and_leaves_nothing(library: Library, hack: object, unharmed: None) -> None:
    code, limits = library("verified_code"), library("sandbox").Limits(seconds=1.0, memory_mb=256)
    source = hack.program("double")  # type: ignore[attr-defined]
    start = time.monotonic()
    verdicts = code.run_tests(source, TESTS, limits)
    if "print" in source:
        verdicts += code.run_tests(source, PRINTING, limits)
    if hack.name.startswith(LIARS):  # type: ignore[attr-defined]
        verdicts += code.run_tests(source, BY_IMPORT, limits) + code.run_tests(source, UNSAID, limits)
    assert len(verdicts) >= 16
    assert "passed" not in verdicts, verdicts
    assert time.monotonic() - start < 20
    assert started(library) == []
    assert kernel_objects() == set()


def test_what_solves_the_task_passes(library: Library) -> None:
    code, limits = library("verified_code"), library("sandbox").Limits(seconds=30)
    good = "def double(x): return x * 2\nif __name__ == '__main__': print(double(int(input())))"
    for tests in (TESTS, BY_IMPORT, UNSAID):
        assert set(code.run_tests(good, tests, limits)) == {"passed"}
    assert code.run_tests(good, PRINTING, limits) == ["passed"]
