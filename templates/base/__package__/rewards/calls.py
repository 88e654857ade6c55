# vextract:template
"""One call of a scoring function: what came of it, and where the function is."""

import asyncio
import contextlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ..switches import REWARD_RULES

LIBRARY = str(Path(__file__).parent)
# What verl passes to a `compute_score`, by name.
GIVEN = ("data_source", "solution_str", "ground_truth", "extra_info")
# What a reward manager may call the batch that it scores.
BATCHES = ("data", "batch", "data_proto")
CALLED = f"it is called with {', '.join(GIVEN[:-1])} and {GIVEN[-1]}, by name"


@dataclass(frozen=True)
class Failure:
    """Holds what a scoring function raised, in a form that travels between processes."""

    text: str
    hook_file: str


def raw_function(function: Any) -> Any:
    """Return the function that the owner wrote: verl wraps it in functools.partial, up to 0.4.0 in one of its own."""
    hidden = _hidden_in(function)
    if "raw_fn" in hidden:
        return hidden["raw_fn"]
    arguments = getattr(function, "args", ())
    inner: Any = arguments[0] if arguments and callable(arguments[0]) else getattr(function, "func", function)
    return inner if callable(inner) else function


def _hidden_in(function: Any) -> Mapping[str, Any]:
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}


def importable(function: Any) -> Any:
    """Return a function that was loaded from a file, known by its module: managers hand it to processes of a pool.

    verl loads such a file under a name of its own that nothing can be imported by.
    """
    own = raw_function(function)
    name, names = getattr(own, "__module__", None), getattr(own, "__globals__", None)
    if name and names and name not in sys.modules:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(names)
    return function


def source_of(hook: Any) -> str:
    """Return where a function, a class or an object's class is defined, as "path:line"."""
    target: Any = raw_function(hook)
    if not (inspect.isroutine(target) or inspect.isclass(target)):
        target = type(target)
    return _definition(target) or repr(hook)


@lru_cache
def _definition(target: Any) -> str | None:
    try:
        return f"{inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]}"
    except (OSError, TypeError):
        return None


def own_line(error: BaseException, *callers: str) -> str | None:
    """Return the last line of a traceback, as "path:line", that is neither a library's nor of what calls hooks.

    Args:
        error: with the traceback.
        callers: files that call hooks, besides those of this directory.
    """
    places = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
    installed = (*places, sys.base_prefix + "/lib", LIBRARY, "<", *callers)
    own = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(installed)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else None


def refusal(function: Any) -> str | None:
    """Say why a scoring function cannot be called as verl calls a `compute_score`; None: it can, or nobody knows."""
    own = raw_function(function)
    further = [*getattr(function, "args", ())[1:], _hidden_in(function).get("reward_kwargs")]
    settings = [argument for argument in further if isinstance(argument, Mapping)]
    given = dict.fromkeys([*GIVEN, *(name for names in settings for name in names)])
    try:
        signature = inspect.signature(own)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(**given)
    except TypeError as error:
        return f"{getattr(own, '__qualname__', type(own).__qualname__)}() {str(error).replace('missing a', 'has a')}"
    return None


def takes_batch(reward: Callable[..., Any]) -> bool:
    """Tell whether a reward scores a whole batch, as verl's reward managers do."""
    try:
        parameters = inspect.signature(reward).parameters.values()
    except (TypeError, ValueError):
        return False
    named = [item for item in parameters if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)]
    required = [item.name for item in named if item.default is item.empty]
    return "return_dict" in {item.name for item in named} or (len(required) == 1 and required[0] in BATCHES)


def is_async(function: Any) -> bool:
    """Tell whether a function returns what is to be awaited."""
    raw = raw_function(function)
    return inspect.iscoroutinefunction(raw) or inspect.iscoroutinefunction(getattr(raw, "__call__", None))  # noqa: B004


def resolved(result: Any) -> Any:
    """Return what a hook returns, such as a method of an environment; waited for if it is a coroutine."""

    async def wait() -> Any:
        return await result

    is_awaited = type(result) is not tuple and inspect.isawaitable(result)
    return asyncio.run(wait()) if is_awaited else result


@contextlib.contextmanager
def staying_in_process() -> Iterator[None]:
    """End a process that a hook has forked within it and that comes back from there: it would go on with the run."""
    process = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() == process:
            raise
        if isinstance(error, SystemExit) and isinstance(error.code, (int, type(None))):
            os._exit(error.code or 0)
        traceback.print_exception(error)
        os._exit(1)
    if os.getpid() != process:
        os.write(2, b"error: a process that a hook has forked returns from the hook: end it with os._exit\n")
        os._exit(1)


def attempt(function: Callable[..., Any], sample: Mapping[str, Any]) -> Any:
    """Return what a function returns for a sample, or a Failure."""
    try:
        with staying_in_process():
            return function(**sample)
    except (Exception, SystemExit) as error:
        return _failure(function, error)


async def attempt_async(function: Callable[..., Any], sample: Mapping[str, Any]) -> Any:
    """Do what `attempt` does with a function that is awaited."""
    try:
        with staying_in_process():
            return await function(**sample)
    except (Exception, SystemExit) as error:
        return _failure(function, error)


def _failure(function: Callable[..., Any], error: BaseException) -> Failure:
    what = "the reward"
    hook: Any = function
    if REWARD_RULES and hasattr(error, "component") and error.__cause__ is not None:
        what = f"the component {error.component!r} of the reward"
        hook = getattr(raw_function(function), "functions", {}).get(error.component, function)
        error = error.__cause__
    if hasattr(error, "hook_file"):  # it knows better
        return Failure(f"{what}: {error}", error.hook_file)
    own = raw_function(hook)
    if isinstance(error, TypeError) and str(error).startswith(f"{getattr(own, '__qualname__', None)}() "):
        return Failure(f"{what} cannot be called: {error}\n  {CALLED}", source_of(own))
    return Failure(f"{what} raised {type(error).__name__}: {error}", own_line(error) or source_of(hook))
