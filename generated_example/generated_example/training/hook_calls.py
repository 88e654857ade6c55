# vextract:template base/__package__/training/hook_calls.py
"""The import of the hooks, and the calls of the owner's policy losses and advantage estimators."""

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..absent import SHIPPED
from ..vendored.algorithms import core_algos
from . import registries
from .hook_errors import HookError, raised_in, source_of

# Where the functions are defined that verl registers itself.
VERLS = tuple(f"{core_algos.__package__}.{name}" for name in ("core_algos", "trainer_functions", "rollout_corr_helper"))


class Registered(NamedTuple):
    """A kind of functions that are registered by name."""

    kind: str
    arguments: str
    result: str


LOSS = Registered(
    "policy loss",
    "old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config and, from 0.6.1 on, another",
    "the loss, one number that has a gradient (see agg_loss), and metrics (up to 0.6.0: three further tensors)",
)
ESTIMATOR = Registered(
    "advantage estimator",
    "token_level_rewards, response_mask, index, config and whatever else the release passes",
    "two tensors, advantages and returns",
)


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
            message += "\n  vextract explain says where a name of verl is in this project"
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
    """Turn what is wrong with an owner's policy loss within it into a HookError: it goes around the actor's update."""
    with _naming(LOSS, name, registries.POLICY_LOSS_REGISTRY.get(str(name))):
        yield


@contextmanager
def calling_estimator(name: str) -> Iterator[None]:
    """Do the same with an owner's advantage estimator: it goes around `compute_advantage`."""
    with _naming(ESTIMATOR, name, registries.ADV_ESTIMATOR_REGISTRY.get(str(name))):
        yield


def is_owners(function: Any) -> bool:
    """Tell whether a registered function is a hook, and not verl's."""
    return getattr(function, "__module__", "") not in VERLS


@contextmanager
def _naming(registered: Registered, name: str, function: Any) -> Iterator[None]:
    try:
        yield
    except HookError:
        raise
    except Exception as error:
        if function is None or not is_owners(function):
            raise
        what, own = f"the {registered.kind} {name!r}", inspect.unwrap(function)
        path = inspect.getsourcefile(own)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        if lines:
            raise HookError(f"{what} raised {type(error).__name__}: {error}", f"{path}:{lines[-1]}") from error
        frame = list(traceback.walk_tb(error.__traceback__))[-1][0]
        by_caller = any(value is function for value in frame.f_locals.values())
        if by_caller and isinstance(error, TypeError) and f"{own.__name__}() " in str(error):
            message = f"{what} cannot be called: {error}\n  it is called with {registered.arguments}, by name"
            raise HookError(message, source_of(own)) from error
        if by_caller or any(text in str(error) for text in ("does not require grad", "grad can be implicitly created")):
            message = f"{what} does not return {registered.result}: {type(error).__name__}: {error}"
            raise HookError(message, source_of(own)) from error
        raise
