# vextract:template base/__package__/rewards/scoring.py
"""A scoring function over the samples of a batch: how it is called, what it returned, and where it is defined."""

import asyncio
import inspect
import math
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIBRARY = str(Path(__file__).parent)
# What verl passes to a `compute_score`, by name.
GIVEN = ("data_source", "solution_str", "ground_truth", "extra_info")
# What a reward manager may call the batch that it scores.
BATCHES = ("data", "batch", "data_proto")
CALLED = f"it is called with {', '.join(GIVEN[:-1])} and {GIVEN[-1]}, by name"
# The largest number that float32, which rewards are computed in, can hold.
LARGEST = 3.4028235e38


@dataclass(eq=False, repr=False)
class ScoringError(RuntimeError):
    """A scoring function raised, or returned no score.

    Attributes:
        message: what is wrong; names the component, if several make up the score.
        hook_file: where, as "path:line".
        row: the first sample, in the order of the batch, that shows it; None: it is no single one's.
    """

    message: str
    hook_file: str
    row: int | None = None

    def __str__(self) -> str:
        return f"{self.message} (sample {self.row}, {self.hook_file})"


class FeatureNeeded(ValueError):
    """A function or a setting takes a feature that the project lacks; `hint` is the command that adds it."""

    def __init__(self, message: str, feature: str) -> None:
        super().__init__(message)
        self.hint = f"vextract add {feature}"


class Scorer:
    """Calls a scoring function for every sample of a batch, one after another.

    Args:
        function: called as verl calls a `compute_score`: data_source, solution_str, ground_truth, extra_info, by name.
            It returns a number, or a dict with `score` and further components.

    Raises:
        ValueError: the function is `async`, which takes a feature.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if is_async(function):
            raise FeatureNeeded("the scoring function is async", "reward_processes")
        self.function = function

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Score samples.

        Args:
            samples: the arguments of the function for each.

        Returns:
            For each sample, in order, a dict with `score` and the other components. They all have the same names; None:
            the function does not report it for this sample.

        Raises:
            ScoringError: the function raised; it names the first sample.
        """
        return aligned([self.checked(attempt(self.function, sample), row) for row, sample in enumerate(samples)])

    def checked(self, outcome: Any, row: int) -> dict[str, Any]:
        """Return the components of a sample, from what the function has returned for it.

        Raises:
            ScoringError: they cannot be used, or it is one itself.
        """
        if isinstance(outcome, ScoringError):
            raise ScoringError(outcome.message, outcome.hook_file, row)
        result = dict(outcome) if isinstance(outcome, dict) else {"score": outcome}
        if "score" not in result:
            text = f"the reward is a dict without `score`; it has {', '.join(map(str, result)) or 'nothing'}"
            raise ScoringError(text, source_of(self.function), row)
        if problem := problem_of(result["score"]):
            raise ScoringError(f"the reward is {problem}", source_of(self.function), row)
        return {name: value if type(value) is float else to_builtin(value) for name, value in result.items()}


def attempt(function: Callable[..., Any], sample: Mapping[str, Any]) -> Any:
    """Return what a function returns for a sample, or the error that it raised."""
    try:
        return function(**sample)
    except (Exception, SystemExit) as error:
        return failure_of(function, error)


def failure_of(function: Callable[..., Any], error: BaseException) -> ScoringError:
    """Return what a scoring function has raised as an error that says where."""
    what, hook = "the reward", function
    if hasattr(error, "hook_file"):  # it knows better
        return ScoringError(f"{what}: {error}", error.hook_file, None)
    own = raw_function(hook)
    if isinstance(error, TypeError) and str(error).startswith(f"{getattr(own, '__qualname__', None)}() "):
        return ScoringError(f"{what} cannot be called: {error}\n  {CALLED}", source_of(own), None)
    return ScoringError(f"{what} raised {type(error).__name__}: {error}", own_line(error) or source_of(hook), None)


def to_builtin(value: Any) -> Any:
    """Return what a tensor or an array holds, a number or lists of them; others as they are."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return value
    return value.item() if math.prod(shape) == 1 else value.tolist()


def problem_of(value: Any) -> str | None:
    """Say what keeps a value from being a reward: a finite number that float32 can hold; None if nothing does.

    A tensor or an array of one is a number as well. Components may be anything: what is no number is not averaged.
    """
    if type(value) is float and -LARGEST <= value <= LARGEST:  # as nearly all are
        return None
    try:
        number = None if isinstance(value, str | bytes) else float(to_builtin(value))
    except (OverflowError, TypeError, ValueError, RuntimeError):
        number = None
    if number is None:
        if (shape := getattr(value, "shape", None)) is not None:
            return f"a {type(value).__name__} of shape {tuple(shape)}, not a number"
        return f"{value!r:.60}, not a number"
    if not math.isfinite(number):
        return f"{number}, not a finite number"
    return f"{number:g}, too large for float32" if abs(number) > LARGEST else None


def aligned(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the same names in every result; None: the sample has no such component."""
    if all(result.keys() == results[0].keys() for result in results):
        return results
    names = dict.fromkeys(name for result in results for name in result)
    return [{**names, **result} for result in results]


def raw_function(function: Any) -> Any:
    """Return the function that the owner wrote: verl wraps it in functools.partial, up to 0.4.0 in one of its own."""
    wrapped = [_hidden_in(function).get("raw_fn"), *getattr(function, "args", ())[:1], getattr(function, "func", None)]
    return next(filter(callable, wrapped), function)


def _hidden_in(function: Any) -> Mapping[str, Any]:
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}


def source_of(hook: Any) -> str:
    """Return where a function, a class or an object's class is defined, as "path:line"."""
    target: Any = raw_function(hook)
    if not (inspect.isroutine(target) or inspect.isclass(target)):
        target = type(target)
    try:
        return f"{inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]}"
    except (OSError, TypeError):
        return repr(hook)


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
        inspect.signature(own).bind(**given)
    except ValueError:  # it tells no arguments, as some of C
        return None
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
    return asyncio.run(_awaited(result)) if hasattr(result, "__await__") else result


async def _awaited(result: Any) -> Any:
    return await result
