"""Whatever a reader is given ends in its own errors, or in a value: in no other error, and not without end."""

import ast
import contextlib
import random
import signal
import sys
from collections.abc import Iterator

import pytest

from extractor.values import limits, readers
from tests.hostile import inputs
from tests.hostile.targets import TARGETS, mutated, sliced

pytestmark = pytest.mark.slow  # all together


@pytest.fixture(autouse=True)
def _frames() -> Iterator[None]:
    """As many as the command has, beside those of the tests."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limits.PYTHON_FRAMES))
    yield
    sys.setrecursionlimit(before)


@contextlib.contextmanager
def an_end() -> Iterator[None]:
    """What hangs is to fail, and not to hang the tests; how fast the rest is does not matter here."""

    def fail(*_: object) -> None:
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(name: str, data: bytes) -> None:
    target = TARGETS[name]
    with an_end(), contextlib.suppress(*target.allowed):
        target.read(data)


@pytest.mark.parametrize("name", TARGETS)
def test_every_input_that_was_found(name: str) -> None:
    for data in TARGETS[name].seeds:
        check(name, data)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_mutations(name: str) -> None:
    """A few of each, the same ones every time; `python scripts/fuzz.py` tries as many as one has time for."""
    chance = random.Random(name)
    seeds = sorted(TARGETS[name].seeds, key=len)[:30]
    for _ in range(40):
        check(name, mutated(chance.choice(seeds), chance))


def test_valid_python_is_vendored_with_its_meaning() -> None:
    for name, data in inputs.UNUSUAL.items():
        made = [ast.dump(node) for node in ast.parse(sliced(data)).body]
        wanted = [ast.dump(node) for node in ast.parse(data.decode("utf-8-sig")).body]
        kept = [line for line in wanted if "id='x'" in line]
        assert [line for line in made if line in wanted] == kept, name
        assert [ast.dump(node) for node in readers.parse_python(data).body] == wanted, name


def test_real_configs_and_modules_are_far_from_the_limits() -> None:
    assert readers.parse_python(b"x = " + b"[" * 50 + b"]" * 50).body
    readers.check_yaml("a: " + "[" * 50 + "]" * 50)
    readers.check_yaml("a: &a {b: 1}\nc: *a\nd: [*a, *a]\n")
    readers.parse_toml("a.b.c.d.e = [[1], [2]]")
