"""Call a function as a case does: with copies of its inputs, and with what it raises, changes and prints."""

import contextlib
import inspect
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from .encode import has_state
from .sides import is_absent

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
        given: What the function has no parameter for is left out: releases differ. "self" is passed by position.

    Raises:
        TypeError: the function requires something else.
    """
    holder = [given.pop("self")] if "self" in given else []
    parameters = dict(list(inspect.signature(function).parameters.items())[len(holder) :])
    takes_all = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values())
    named = {name: _copy_argument(value) for name, value in given.items() if takes_all or name in parameters}
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and parameter.kind in _NAMED and name not in named:
            if name not in available:
                raise TypeError(f"verify has no input for its parameter {name!r}")
            named[name] = _copy_argument(available[name])
    before = {
        name: value.detach().clone()
        for name, value in named.items()
        if isinstance(value, torch.Tensor) and not value.is_nested
    }
    with contextlib.redirect_stdout(io.StringIO()) as said:
        result = capture_outcome(function, *holder, **named)
    text = said.getvalue().replace(str(Path.cwd()), ".")  # which each side has for itself
    if isinstance(result, Iterator):
        result = list(result)
    loss = result[0] if isinstance(result, tuple) and result else result
    leaves = [named[name] for name in before if named[name].requires_grad]
    if leaves and isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.sum().backward()
    changed = [name for name, value in before.items() if not torch.equal(value, named[name])]
    after = [value for value in (*holder, *named.values()) if has_state(value)]
    if isinstance(result, Exception) and not after:
        return result
    return "itself" if holder and result is holder[0] else result, [leaf.grad for leaf in leaves], changed, after, text


def _copy_argument(value: Any) -> Any:
    """Return a copy that a call may change, a new leaf where it learns."""
    if isinstance(value, torch.Tensor) and not value.is_nested:
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) is list:
        return [_copy_argument(item) for item in value]
    if type(value) is dict:
        return {key: _copy_argument(item) for key, item in value.items()}
    return value.clone() if type(value).__name__ == "TensorDict" else value
