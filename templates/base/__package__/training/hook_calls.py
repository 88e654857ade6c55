# vextract:template
"""Watch the calls of the owner's policy losses and advantage estimators, and the import of the hooks.

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
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from ..absent import SHIPPED
from ..vendored.algorithms import core_algos
from . import registries
from .hook_errors import HookError, raised_in, source_of
from .loss_by_pass import note_on_mean

LOSS_ARGUMENTS = "old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config and, from 0.6.1 on, another"
ESTIMATOR_ARGUMENTS = "token_level_rewards, response_mask, index, config and whatever else the release passes"

# Where the functions are defined that verl registers itself.
VERLS = tuple(f"{core_algos.__package__}.{name}" for name in ("core_algos", "trainer_functions", "rollout_corr_helper"))


@contextmanager
def importing_hooks() -> Iterator[None]:
    """Turn what is wrong with the text of hooks that are imported within it into a HookError with file and line."""
    try:
        yield
    except HookError:
        raise
    except SyntaxError as error:
        message = f"a hook is not valid Python: {type(error).__name__}: {error.msg}"
        if error.text:
            message += f"\n  {error.text.strip()}"
        raise HookError(message, f"{error.filename}:{error.lineno}") from error
    except Exception as error:
        first = error
        if isinstance(error, ModuleNotFoundError) and error.name == "verl" and error.__context__ is not None:
            first = error.__context__  # type: ignore[assignment]  # the import that the one from verl is there for
        message = f"a hook cannot be imported: {type(first).__name__}: {first}"
        if isinstance(first, ImportError):
            message += "\n  training/hook_surface.py lists what every release of this project offers hooks"
        raise HookError(message, raised_in(first) or raised_in(error) or "custom/") from error


def import_hooks() -> None:
    """Import what registers hooks: all that `custom/` names, and the modules that came with this project or an upgrade.

    An upgrade that brings a new hook does not write `custom/__init__.py`, which is its owner's.
    """
    with importing_hooks():
        custom = import_module("..custom", __package__).__name__
        for name in SHIPPED["hooks"]:
            if find_spec(f"{custom}.{name}") is not None:  # its owner may have removed it
                import_module(f"{custom}.{name}")


@contextmanager
def calling_policy_loss(name: str) -> Iterator[None]:
    """Check a policy loss at each call within it: it goes around the actor's update.

    Of verl's own, which may have been edited, only whether it is of the whole batch is looked at, once.
    """
    owners = is_owners(registries.POLICY_LOSS_REGISTRY.get(str(name)))
    check = functools.partial(_check_loss if owners else _look_at_loss, name)
    with _checked(registries.POLICY_LOSS_REGISTRY, name, check):
        yield


@contextmanager
def calling_estimator(name: str) -> Iterator[None]:
    """Check an owner's advantage estimator within it: it goes around `compute_advantage`."""
    if is_owners(registries.ADV_ESTIMATOR_REGISTRY.get(str(name))):
        with _checked(registries.ADV_ESTIMATOR_REGISTRY, name, functools.partial(_check_estimates, name)):
            yield
    else:
        yield


def is_owners(function: Any) -> bool:
    """Tell whether a registered function is a hook, and not verl's."""
    return getattr(function, "__module__", "") not in VERLS


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
    result = _called(what, loss, arguments, LOSS_ARGUMENTS)
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
    result = _called(what, estimator, arguments, ESTIMATOR_ARGUMENTS)
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
