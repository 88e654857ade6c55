# vextract:template base/__package__/rewards/sandboxing/comparisons.py
"""Comparisons that hold because nothing is compared, and what tests get in their place."""

import contextlib
import functools
import importlib
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

# Functions of NumPy that stretch an empty array over any number, and find it equal.
OF_NUMPY = {
    "numpy": ("allclose", "array_equiv", "isclose"),
    "numpy.testing": (
        "assert_allclose",
        "assert_almost_equal",
        "assert_array_almost_equal",
        "assert_array_equal",
        "assert_array_less",
        "assert_equal",
    ),
}


def pairs(is_empty_answer: Callable[[Any], bool], *iterables: Any, strict: bool = False) -> Iterator[tuple[Any, ...]]:
    """Do what `zip` does, but for an answer that is empty where another of `iterables` is not.

    Of `all(a == b for a, b in zip(answer, expected))` nothing would be compared.

    Args:
        is_empty_answer: tells, of one of `iterables` that has no items, whether the program has answered it.

    Raises:
        AssertionError: an answer is empty, and something else is not.
    """
    iterators = [iter(each) for each in iterables]
    first = [list(itertools.islice(each, 1)) for each in iterators]
    for each, item in zip(iterables, first, strict=True):
        if not item and any(first) and is_empty_answer(each):
            raise AssertionError("an empty answer is compared with what is not empty")
    whole = [itertools.chain(item, rest) for item, rest in zip(first, iterators, strict=True)]
    return zip(*whole, strict=strict)


def builtins_for_tests(empty: Collection[Any], kind: type) -> dict[str, Any]:
    """Return `zip` and `map` for tests.

    Args:
        empty: the empty answers so far, known by identity; it grows.
        kind: of answers that can be iterated over and are not data.
    """

    def is_empty_answer(value: Any) -> bool:
        return type(value) is kind or any(value is one for one in empty)

    checked = functools.partial(pairs, is_empty_answer)
    return {"zip": checked, "map": lambda function, *items: itertools.starmap(function, checked(*items))}


def guard_numpy() -> None:
    """Let NumPy's comparisons refuse an empty array beside one that is not. Nothing happens where there is no NumPy."""
    for module, names in OF_NUMPY.items():
        with contextlib.suppress(ImportError):
            found = importlib.import_module(module)
            for name in names:
                setattr(found, name, _of_the_same_emptiness(getattr(found, name)))


def _of_the_same_emptiness(compare: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compare)
    def checked(first: Any, second: Any, *more: Any, **options: Any) -> Any:
        if _is_empty(first) != _is_empty(second):
            raise AssertionError("an empty array is compared with what is not empty")
        return compare(first, second, *more, **options)

    return checked


def _is_empty(value: Any) -> bool:
    numpy = importlib.import_module("numpy")
    with contextlib.suppress(Exception):  # what is not an array is left to the comparison
        return bool(numpy.size(value) == 0)
    return False
