"""Define cases: functions that run once on each side."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .sides import Side, is_absent

Thunk = Callable[[], Any]
Family = Callable[[Side], Iterator[tuple[str, Thunk]]]


@dataclass(frozen=True)
class Registered:
    """A family of cases.

    Attributes:
        name: First part of its cases' names ("core_algos.kl_penalty").
        needs: The upstream module without which there is nothing to compare.
        expand: Yields each case's own name and what computes it.
        fixes: Named fixes that make the numbers differ on purpose, where the case could not provide a counterpart.
    """

    name: str
    needs: str
    expand: Family
    fixes: tuple[str, ...] = ()


FAMILIES: list[Registered] = []


def family(name: str, needs: str, *, fixes: tuple[str, ...] = ()) -> Callable[[Family], Family]:
    """Register a generator of cases."""

    def register(expand: Family) -> Family:
        FAMILIES.append(Registered(name, needs, expand, fixes))
        return expand

    return register


def outcome(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return what a call returns, or the exception that it raises, both being behaviour to compare."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        if is_absent(error):
            raise
        return error


def printed(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return a call's outcome, and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        result = outcome(function, *args, **kwargs)
    return result, said.getvalue()


def with_gradient(result: Any, leaf: Any) -> Any:
    """Return a loss, or a tuple that begins with one, with the gradient of a tensor; an exception as it is."""
    if isinstance(result, Exception):
        return result
    loss = result[0] if isinstance(result, tuple) else result
    loss.backward()
    return result, leaf.grad
