"""Define cases: functions that run once on each side."""

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .sides import Side, is_absent

Thunk = Callable[[], Any]
Cases = Iterator[tuple[str, Thunk]]


class Call:
    """Makes cases of one module's functions.

    Attributes:
        side: Where they run.
        module: The module, by upstream's name.
    """

    def __init__(self, side: Side, module: str) -> None:
        self.side = side
        self.module = module

    def get(self, name: str) -> Any:
        """Return an object of the module, or of another ("verl.protocol:DataProto")."""
        return self.side.get(name if ":" in name else f"{self.module}:{name}")

    def __call__(self, function: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Thunk:
        """Return a case that calls a function (itself or its name)."""

        def run() -> Any:
            return outcome(self.get(function) if isinstance(function, str) else function, *args, **kwargs)

        return run

    def on(self, make: Callable[[], Any], method: str, /, *args: Any, **kwargs: Any) -> Thunk:
        """Return a case that calls a method of a new object."""
        return lambda: outcome(getattr(make(), method), *args, **kwargs)


Family = Callable[[Side], Cases]


@dataclass(frozen=True)
class Registered:
    """A family of cases.

    Attributes:
        name: First part of its cases' names ("core_algos.kl_penalty").
        needs: The upstream module without which there is nothing to compare.
        expand: Yields each case's own name and what computes it. A case runs before the next one is made.
        fixes: Named fixes that make the numbers differ on purpose, where the case could not provide a counterpart.
    """

    name: str
    needs: str
    expand: Family
    fixes: tuple[str, ...] = ()


FAMILIES: list[Registered] = []


def family(name: str, needs: str, *, fixes: tuple[str, ...] = ()) -> Callable[[Callable[[Call], Cases]], object]:
    """Register a generator of cases."""

    def register(expand: Callable[[Call], Cases]) -> object:
        FAMILIES.append(Registered(name, needs, lambda side: expand(Call(side, needs)), fixes))
        return expand

    return register


def outcome(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return a call's result or exception; re-raise for absent functions."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        if is_absent(error):
            raise
        return error


def kind_of(thunk: Thunk) -> Thunk:
    """Return a case that gives the type of another's result."""
    return lambda: type(thunk()).__name__


def printed(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return a call's outcome, and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        result = outcome(function, *args, **kwargs)
    return result, said.getvalue()


def with_gradient(result: Any, leaf: Any) -> Any:
    """Return a loss result with a tensor's gradient; exceptions unchanged."""
    if isinstance(result, Exception):
        return result
    loss = result[0] if isinstance(result, tuple) else result
    loss.sum().backward()
    return result, leaf.grad
