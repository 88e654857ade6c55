# vextract:template
"""Check what the owner's policy losses and advantage estimators return, and what they change.

verl calls what is registered under a name. While it does, a checked stand-in is registered under the name of an
owner's function: what that raises, or returns and nothing can be made of, becomes a HookError that says so and where.
verl's own functions are called as they are.
"""

import functools
import inspect
import numbers
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from .. import registries
from ..hooks import ESTIMATOR, LOSS, HookError, Registered, is_owners, source_of
from .loss_by_pass import note_on_mean


@contextmanager
def checking(registered: Registered, name: str) -> Iterator[None]:
    """Check a policy loss at each call within it, or an owner's advantage estimator: it goes around what calls them.

    Of verl's own losses, which may have been edited, only whether it is of the whole batch is looked at, once.
    """
    owners = is_owners(registered.registry.get(str(name)))
    if registered is ESTIMATOR and not owners:
        yield
        return
    look = _check_estimates if registered is ESTIMATOR else _check_loss if owners else _look_at_loss
    with _checked(registered.registry, name, functools.partial(look, name)):
        yield


@contextmanager
def _checked(
    registry: dict[str, Any], name: str, check: Callable[[Callable[..., Any], Mapping[str, Any]], Any]
) -> Iterator[None]:
    function = registry.get(str(name))
    if function is None:
        yield
        return

    @functools.wraps(function)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return check(functools.partial(function, *args), kwargs)

    registry[name] = stand_in
    try:
        yield
    finally:
        registry[name] = function


def _check_loss(name: str, loss: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a policy loss; return what it returns."""
    what, where = f"the policy loss {name!r}", source_of(loss.func)  # type: ignore[attr-defined]
    result = _called(what, loss, arguments, LOSS.arguments)
    first, metrics = _loss_parts(what, where, result)
    if not isinstance(first, torch.Tensor):
        raise HookError(f"{what} returned a {type(first).__name__} as loss, not a tensor", where)
    log_prob = arguments.get("log_prob")
    if first.dim() != 0:
        raise HookError(f"{what} returned a loss of shape {tuple(first.shape)}, not one number (see agg_loss)", where)
    if not first.is_floating_point():
        raise HookError(f"{what} returned a loss of dtype {first.dtype}, not a floating-point one", where)
    if isinstance(log_prob, torch.Tensor):
        if first.device != log_prob.device:
            raise HookError(f"{what} returned a loss on {first.device}, and log_prob is on {log_prob.device}", where)
        if log_prob.requires_grad and not first.requires_grad:
            raise HookError(
                f"{what} returned a loss without a gradient: it does not depend on log_prob (detach, item, no_grad?)",
                where,
            )
    if not torch.isfinite(first.detach()):
        raise HookError(f"{what} returned {first.item()} as loss, not a finite number", where)
    for key, value in metrics.items():
        if not _is_metric(value):
            kind = f"{value!r:.60}" if not isinstance(value, torch.Tensor) else "a tensor: .detach().item() is a number"
            raise HookError(f"{what} returned the metric {key!r}, which is not a number but {kind}", where)
    note_on_mean(name, where, loss, arguments)
    return result


def _look_at_loss(name: str, loss: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a policy loss of verl's; return what it returns."""
    result = loss(**arguments)
    note_on_mean(name, source_of(loss.func), loss, arguments)  # type: ignore[attr-defined]
    return result


def _loss_parts(what: str, where: str, result: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the loss and the metrics of what a policy loss returned."""
    if _with_metrics():
        if not isinstance(result, (tuple, list)) or len(result) != 2 or not isinstance(result[1], Mapping):
            raise HookError(f"{what} returned {_shape_of(result)}, not (loss, metrics): a tensor and a dict", where)
        return result[0], result[1]
    if not isinstance(result, (tuple, list)) or len(result) != 4:
        wanted = "(loss, clip fraction, approximate KL, lower clip fraction): four tensors"
        raise HookError(f"{what} returned {_shape_of(result)}, not {wanted}", where)
    for value in result[1:]:
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise HookError(f"{what} returned {_shape_of(value)} besides the loss, not a tensor of one number", where)
    return result[0], {}


def _with_metrics() -> bool:
    """Tell whether the policy losses of this release return a dictionary of metrics: since verl 0.6.1."""
    builtin = registries.POLICY_LOSS_REGISTRY.get("clip_cov")
    return builtin is not None and "dict" in str(inspect.signature(builtin).return_annotation)


def _is_metric(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_metric(item) for item in value)
    return isinstance(value, numbers.Number) or hasattr(value, "aggregate") or _is_numpy_number(value)


def _is_numpy_number(value: Any) -> bool:
    return hasattr(value, "dtype") and not isinstance(value, torch.Tensor) and getattr(value, "shape", None) == ()


def _check_estimates(name: str, estimator: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call an advantage estimator; return what it returns."""
    what, where = f"the advantage estimator {name!r}", source_of(estimator.func)  # type: ignore[attr-defined]
    result = _called(what, estimator, arguments, ESTIMATOR.arguments)
    if (
        not isinstance(result, (tuple, list))
        or len(result) != 2
        or not all(isinstance(value, torch.Tensor) for value in result)
    ):
        raise HookError(f"{what} returned {_shape_of(result)}, not (advantages, returns): two tensors", where)
    return result


def _called(what: str, function: Callable[..., Any], arguments: Mapping[str, Any], passed: str) -> Any:
    """Return what a function returns; it may not raise, nor change the tensors that it is given."""
    tensors = {key: value for key, value in arguments.items() if isinstance(value, torch.Tensor)}
    versions = {key: value._version for key, value in tensors.items()}
    own = inspect.unwrap(function.func)  # type: ignore[attr-defined]
    try:
        result = function(**arguments)
    except HookError:
        raise
    except Exception as error:
        depth = len(traceback.extract_tb(error.__traceback__))
        if isinstance(error, TypeError) and depth == 1:  # raised by the call, and not within
            message = f"{what} cannot be called: {error}\n  it is called with {passed}, by name"
            raise HookError(message, source_of(own)) from error
        path = inspect.getsourcefile(own)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        where = f"{path}:{frames[-1].lineno}" if frames else source_of(own)
        raise HookError(f"{what} raised {type(error).__name__}: {error}", where) from error
    changed = [key for key, value in tensors.items() if value._version != versions[key]]
    if changed:
        raise HookError(f"{what} changes {changed[0]} in place, which others still read: clone() it", source_of(own))
    return result


def _shape_of(result: Any) -> str:
    """Return the form of a result, in a few words."""
    if isinstance(result, (tuple, list)):
        kind = "a tuple" if isinstance(result, tuple) else "a list"
        return f"{kind} of {len(result)} ({', '.join(type(item).__name__ for item in result)})"
    return "nothing" if result is None else f"a {type(result).__name__}"
