"""Define cases: functions that run once on each side."""

import contextlib
import copy
import inspect
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

import torch

from .sides import Side, is_absent

Thunk = Callable[[], Any]
Cases = Iterator[tuple[str, Thunk]]
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Each(dict[str, Any]):
    """Values of one argument by label; a grid has a case of each."""


def label_by_value(*values: Any) -> Each:
    """Return values that are their own labels."""
    return Each({str(value): value for value in values})


class CaseMaker:
    """Makes the cases of one module's functions.

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
            return capture_outcome(self.get(function) if isinstance(function, str) else function, *args, **kwargs)

        return run

    def each(self, start: str, function: str | Callable[..., Any], /, table: Mapping[str, Any], *args: Any) -> Cases:
        """Yield a case for each row of a table: its keyword arguments."""
        for label, row in table.items():
            yield f"{start}{label}", self(function, *args, **row)

    def grid(self, function: str, /, *, label: str = "", available: Mapping[str, Any], **given: Any) -> Cases:
        """Yield a case for each combination of the arguments that are `Each`; see `compute`."""
        for chosen in product(*(item.items() if isinstance(item, Each) else [("", item)] for item in given.values())):
            name = "/".join([function, *(text for text in (label, *(text for text, _ in chosen)) if text)])
            named = dict(zip(given, (value for _, value in chosen), strict=True))
            yield name, lambda named=named: compute(self.get(function), available=available, **named)


Family = Callable[[Side], Cases]


@dataclass(frozen=True)
class CaseFamily:
    """A family of cases.

    Attributes:
        name: First part of its cases' names ("core_algos.kl_penalty").
        needs: The upstream module without which there is nothing to compare.
        expand: Yields each case's own name and what computes it. A case runs before the next one is made.
    """

    name: str
    needs: str
    expand: Family


FAMILIES: list[CaseFamily] = []


def family(name: str, needs: str) -> Callable[[Callable[[CaseMaker], Cases]], object]:
    """Register a generator of cases."""

    def register(expand: Callable[[CaseMaker], Cases]) -> object:
        FAMILIES.append(CaseFamily(name, needs, lambda side: expand(CaseMaker(side, needs))))
        return expand

    return register


def capture_outcome(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return a call's result or exception; re-raise for absent functions."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        if is_absent(error):
            raise
        return error


def compute(
    function: Callable[..., Any], /, *, available: Mapping[str, Any] = MappingProxyType({}), **given: Any
) -> Any:
    """Call with copies of the arguments; return the outcome, gradients, and what the call changed and printed.

    Args:
        available: Values by name for what the function requires and is not given.
        given: What the function has no parameter for is left out: releases differ.

    Raises:
        TypeError: the function requires something else.
    """
    parameters = inspect.signature(function).parameters
    takes_all = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values())
    named = {name: copy_argument(value) for name, value in given.items() if takes_all or name in parameters}
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and parameter.kind in _NAMED and name not in named:
            if name not in available:
                raise TypeError(f"verify has no input for its parameter {name!r}")
            named[name] = copy_argument(available[name])
    before = {
        name: value.detach().clone()
        for name, value in named.items()
        if isinstance(value, torch.Tensor) and not value.is_nested
    }
    result, text = capture_output(function, **named)
    if isinstance(result, Exception):
        return result
    if isinstance(result, Iterator):
        result = list(result)
    loss = result[0] if isinstance(result, tuple) and result else result
    leaves = [named[name] for name in before if named[name].requires_grad]
    if leaves and isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.sum().backward()
    changed = [name for name, value in before.items() if not torch.equal(value, named[name])]
    holder = named.get("self")
    said = "itself" if holder is not None and result is holder else result
    return said, [leaf.grad for leaf in leaves], changed, holder, text


def copy_argument(value: Any) -> Any:
    """Return a copy that a call may change, a new leaf where it learns."""
    if isinstance(value, torch.Tensor) and not value.is_nested:
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) is list:
        return [copy_argument(item) for item in value]
    if type(value) is dict:
        return {key: copy_argument(item) for key, item in value.items()}
    if type(value).__name__ == "TensorDict":
        return value.clone()
    return copy.deepcopy(value) if hasattr(value, "meta_info") else value


def make_type_case(thunk: Thunk) -> Thunk:
    """Return a case that gives the type of another's result."""
    return lambda: type(thunk()).__name__


def capture_output(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return a call's outcome, and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        result = capture_outcome(function, *args, **kwargs)
    return result, said.getvalue()
