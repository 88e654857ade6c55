# vextract:template
"""Import and call hooks, the owner's code; errors in them name file and line.

A NaN in one reward reaches every weight within a step, and a tensor of the wrong shape is often broadcast without a
word. So each hook's result is checked where it enters the trainer.
"""

import inspect
import linecache
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from .absent import HERE, SHIPPED
from .errors import ProjectError
from .hook_effects import staying_in_process
from .registries import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
from .rewards.scoring import ScoringError, own_line, raw_function, resolved, source_of, to_builtin
from .switches import HOOK_CHECKS, OVERLAP, REWARD_MANAGERS, REWARD_MODEL, SPECIAL_TOKENS, STEP_HOOKS
from .vendored.algorithms import core_algos
from .vendored.protocol import DataProto

# Where verl's reward managers are, and what computes rewards with them.
MANAGERS = tuple(
    str(Path(__file__).parent / place)
    for place in ("vendored/workers/reward_", "vendored/algorithms/reward", "training/reward")
)
# Where the functions are defined that verl registers itself.
VERLS = tuple(f"{core_algos.__package__}.{name}" for name in ("core_algos", "trainer_functions", "rollout_corr_helper"))


@dataclass(eq=False, repr=False)
class HookError(ProjectError, RuntimeError):
    """A hook raised an exception, or returned what the trainer cannot use.

    Attributes:
        message: what is wrong.
        hook_file: the hook's source, as "path" or "path:line".
        sample: the first row that shows it, as prompt, response, ground_truth...; None if no single row does.
    """

    message: str
    hook_file: str
    sample: dict[str, Any] | None = None

    def __str__(self) -> str:
        path, _, number = self.hook_file.rpartition(":")
        text = linecache.getline(path, int(number)).strip() if number.isdigit() else ""
        shown = [f"        {text}"] if text and text not in self.message else []
        sample = ", ".join(f"{name}={value!r}" for name, value in (self.sample or {}).items())
        shown += [f"  sample: {sample}"] if sample else []
        return "\n".join([self.message, f"  hook: {self.hook_file}", *shown])


@contextmanager
def running_hook(what: str, hook: Any) -> Iterator[None]:
    """Turn what the owner's code raises within it into a HookError with file and line."""
    try:
        yield
    except ProjectError:
        raise
    except Exception as error:
        raise HookError(f"{what} raised {type(error).__name__}: {error}", hook_file_of(error, hook)) from error


def hook_file_of(error: BaseException, hook: Any) -> str:
    """Return where a hook failed: the project's own line that raised, or else the file that defines the hook."""
    return own_line(error, __file__) or source_of(hook)


def import_hooks() -> None:
    """Import what registers hooks: all that `custom/` names, and the modules that came with this project or an upgrade.

    An upgrade that brings a new hook does not write `custom/__init__.py`, which is its owner's.
    """
    with importing_hooks():
        custom = import_module(".custom", __package__).__name__
        for name in SHIPPED["hooks"]:
            if find_spec(f"{custom}.{name}") is not None:  # its owner may have removed it
                import_module(f"{custom}.{name}")


@contextmanager
def importing_hooks() -> Iterator[None]:
    """Turn what is wrong with the text of hooks that are imported within it into a HookError with file and line."""
    try:
        yield
    except HookError:
        raise
    except SyntaxError as error:
        text = f"\n  {error.text.strip()}" if error.text else ""
        message = f"a hook is not valid Python: {type(error).__name__}: {error.msg}{text}"
        raise HookError(message, f"{error.filename}:{error.lineno}") from error
    except Exception as error:
        first = error
        if isinstance(error, ModuleNotFoundError) and error.name == "verl" and error.__context__ is not None:
            first = error.__context__  # type: ignore[assignment]  # the import that the one from verl is there for
        message = f"a hook cannot be imported: {type(first).__name__}: {first}"
        if isinstance(first, ImportError) and (first.name or "verl").partition(".")[0] in ("verl", __package__):
            message += "\n  vextract explain says where a name of verl is in this project"
        elif isinstance(first, ModuleNotFoundError):
            message += "\n  add the package that has it to pyproject.toml, and run `make setup`"
        raise HookError(message, own_line(first, __file__, f"{HERE}/absent") or source_of("custom/")) from error


if STEP_HOOKS:

    class AtHand(NamedTuple):
        """What an advantage estimator can ask for besides what verl hands it: `at_hand.get()`."""

        batch: DataProto
        config: Any
        step: int
        total_steps: int
        tokenizer: Any
        kept: SimpleNamespace = SimpleNamespace()  # what hooks keep between steps, until the run ends

        def column(self, name: str) -> Any:
            """Return a column of the batch: a tensor, or an array of what the data or the reward says."""
            return self.batch.batch[name] if name in self.batch.batch.keys() else self.batch.non_tensor_batch[name]


if STEP_HOOKS:
    at_hand: ContextVar[AtHand] = ContextVar("at_hand")
    # The owner's functions that are called in each step, by what comes next: see `before_phase`.
    PREPARING: dict[str, list[Callable[[AtHand], DataProto | None]]] = {"advantages": [], "update": []}


if STEP_HOOKS:

    def before_phase(phase: str) -> Callable[..., Callable[[AtHand], DataProto | None]]:
        """Register a function that is called before the "advantages", or the "update", of each step.

        It may add columns to `now.batch`, the global batch with its reward, on every process the same. It may return
        the batch that the step goes on with: the same rows, or fewer. Of an empty one the step draws other prompts.
        """

        def register(function: Callable[[AtHand], DataProto | None]) -> Callable[[AtHand], DataProto | None]:
            PREPARING[phase].append(function)
            return function

        return register


if STEP_HOOKS:

    def prepare(phase: str, now: AtHand) -> DataProto:
        """Call the owner's functions that come before a phase; return the batch that the step goes on with."""
        for function in PREPARING[phase]:
            with running_hook(f"{function.__name__}, before the {phase},", function):
                returned = function(now)
                batch = now.batch if returned is None else returned
                if len(batch) > len(now.batch):  # the policy's log-probabilities are known for so many alone
                    raise ValueError(f"it returned {len(batch)} rows, and was given {len(now.batch)}")
            now = now._replace(batch=batch)
            if not len(batch):
                break
        return now.batch


class Registered(NamedTuple):
    """A kind of functions that are registered by name, and called by verl."""

    kind: str
    registry: dict[str, Any]
    arguments: str
    result: str


LOSS = Registered(
    "policy loss",
    POLICY_LOSS_REGISTRY,
    "old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config and, from 0.6.1 on, another",
    "the loss, one number that has a gradient (see agg_loss), and metrics (up to 0.6.0: three further tensors)",
)
ESTIMATOR = Registered(
    "advantage estimator",
    ADV_ESTIMATOR_REGISTRY,
    "token_level_rewards, response_mask, index, config and whatever else the release passes",
    "two tensors, advantages and returns",
)


def is_owners(function: Any) -> bool:
    """Tell whether a registered function is a hook, and not verl's."""
    return function is not None and getattr(function, "__module__", "") not in VERLS


@contextmanager
def calling(registered: Registered, name: str) -> Iterator[None]:
    """Turn an error of a hook that verl calls by name into a HookError; wrap verl's call in it."""
    function: Any = registered.registry.get(str(name))
    try:
        if HOOK_CHECKS:
            from .training.hook_results import checking

            with checking(registered, name):
                yield
        else:
            yield
    except Exception as error:
        if isinstance(error, HookError) or not is_owners(function):
            raise
        what, own = f"the {registered.kind} {name!r}", inspect.unwrap(function)
        path, frames = inspect.getsourcefile(own), list(traceback.walk_tb(error.__traceback__))
        lines = [line for frame, line in frames if frame.f_code.co_filename == path]
        if lines:
            raise HookError(f"{what} raised {type(error).__name__}: {error}", f"{path}:{lines[-1]}") from error
        if frames[-1][0].f_code.co_name == "__iter__":
            frames.pop()  # torch's own, where the caller unpacks a single number
        by_caller = any(value is function for value in frames[-1][0].f_locals.values())
        if by_caller and isinstance(error, TypeError) and f"{own.__name__}() " in str(error):
            message = f"{what} cannot be called: {error}\n  it is called with {registered.arguments}, by name"
        elif by_caller or "does not require grad" in str(error) or "grad can be implicitly created" in str(error):
            message = f"{what} does not return {registered.result}: {type(error).__name__}: {error}"
        else:
            raise
        raise HookError(message, source_of(own)) from error


def call_reward(reward_fn: Any, batch: DataProto, tokenizer: Any) -> tuple[torch.Tensor, dict[str, list[Any]]]:
    """Compute the reward of a batch, and check it.

    The hook is called exactly once, with a copy of the batch.

    Args:
        reward_fn: a reward manager, called as `reward_fn(batch, return_dict=True)`; it may be `async`.
        batch: rolled-out prompts; `responses` is (bs, response_length).
        tokenizer: decodes the sample that an error shows.

    Returns:
        The reward, (bs, response_length), and its components as lists of bs values.

    Raises:
        HookError: the hook raised, or its result has a wrong shape or dtype, or NaN or infinity in it.
    """
    given = DataProto(batch.batch.clone(), dict(batch.non_tensor_batch), dict(batch.meta_info))
    try:
        if HOOK_CHECKS:
            with staying_in_process():
                result = call_manager(reward_fn, given)
        else:
            result = call_manager(reward_fn, given)
    except ScoringError as error:
        sample = None if error.row is None else describe_sample(batch, error.row, tokenizer)
        raise HookError(error.message, error.hook_file, sample) from error
    except Exception as error:
        hook, where = _hook_of(reward_fn), own_line(error, __file__)
        message = f"the reward raised {type(error).__name__}: {error}"
        if where is not None and where.startswith(MANAGERS) and inspect.isroutine(hook):
            # verl's manager could not use what the owner's function had returned.
            message, where = f"{message}\n  where {Path(where).name} takes what it returned", None
        raise HookError(message, where or source_of(hook)) from error

    reward, extra = _checked_reward(result, batch, _hook_of(reward_fn), tokenizer)
    components = {name: [*map(to_builtin, values)] for name, values in extra.items() if len(values)}
    if STEP_HOOKS:
        for name, value in result.items():  # what it returns beside the reward, of which each row is a column's
            if isinstance(value, torch.Tensor) and name != "reward_tensor" and value.shape[:1] == (len(batch),):
                components[name] = list(value.detach().cpu())
            elif isinstance(value, list) and len(value) == len(batch):
                components[name] = value
    return reward.detach().to(batch.batch["responses"].device, torch.float32), components


def call_manager(reward_fn: Any, batch: DataProto) -> dict[str, Any]:
    """Return what a reward manager returns for a batch, as a dictionary: its scores are `reward_tensor`."""
    takes_it = "return_dict" in inspect.signature(reward_fn).parameters
    result = resolved(reward_fn(batch, return_dict=True) if takes_it else reward_fn(batch))
    return result if isinstance(result, dict) else {"reward_tensor": result}


def check_advantages(batch: DataProto, estimator: str, tokenizer: Any = None) -> None:
    """Check `advantages` and `returns` of a batch, after `compute_advantage`.

    Raises:
        HookError: one of them has a wrong shape or dtype, or NaN or infinity in it; names the estimator's file.
    """
    hook = ADV_ESTIMATOR_REGISTRY.get(str(getattr(estimator, "value", estimator))) or estimator
    for name in ("advantages", "returns"):
        _check_tensor(f"{name} of the estimator {estimator!r}", batch.batch[name], batch, hook, tokenizer)


def describe_sample(batch: DataProto, row: int, tokenizer: Any) -> dict[str, Any]:
    """Return one row of a batch, as a person wants to read it."""
    sample: dict[str, Any] = {"index": row}
    mask, end = batch.batch["attention_mask"][row].bool(), -batch.batch["responses"].shape[-1]
    for name, valid in (("prompt", mask[:end]), ("response", mask[end:])) if tokenizer is not None else ():
        if (ids := batch.batch.get(f"{name}s")) is not None:
            sample[name] = tokenizer.decode(ids[row][valid].tolist(), skip_special_tokens=True)
    columns = {name: column[row] for name, column in batch.non_tensor_batch.items()}
    if isinstance(columns.get("reward_model"), dict):
        sample["ground_truth"] = columns["reward_model"].get("ground_truth")
    return sample | {name: columns[name] for name in ("data_source",) if name in columns}


def arguments_of(made: Any) -> set[str]:
    """Return the arguments of a constructor, or a function, and of those it hands others to; `**`: it takes any."""
    names, any_other = set[str](), False
    for cls in inspect.getmro(made) if inspect.isclass(made) else (made,):
        function = cls.__dict__.get("__init__") if inspect.isclass(cls) else cls
        if function is not None and cls is not object:
            parameters = inspect.signature(function).parameters.values()
            names.update(item.name for item in parameters if item.kind is not item.VAR_KEYWORD)
            any_other = any(item.kind is item.VAR_KEYWORD for item in parameters)
            if not any_other:
                break
            names.update(cls.__dict__.get("SETTINGS", ()))
    return names - {"self", "args"} | ({"**"} if any_other else set())


def taken_by(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some arguments that a class can be made with."""
    names = arguments_of(cls)
    return {name: value for name, value in given.items() if "**" in names or name in names}


def _hook_of(reward_fn: Any) -> Any:
    """Return the part of a reward manager that the owner wrote: the scoring function, or the manager itself."""
    if OVERLAP or REWARD_MANAGERS or REWARD_MODEL or SPECIAL_TOKENS:
        while hasattr(reward_fn, "manager"):  # behind a reward model, or in an event loop
            reward_fn = reward_fn.manager
    raw = raw_function(getattr(reward_fn, "compute_score", None))
    return raw if callable(raw) and getattr(raw, "__name__", "") != "default_compute_score" else reward_fn


def _checked_reward(result: dict[str, Any], batch: DataProto, hook: Any, tokenizer: Any) -> tuple[torch.Tensor, Any]:
    """Return the scores and the components that `hook` has returned; a HookError, if the trainer cannot use them."""
    problem, extra = None, result.get("reward_extra_info") or {}
    if "reward_tensor" not in result:
        problem = f"the reward is a dict without reward_tensor; it has {sorted(map(str, result))}"
    elif not isinstance(extra, Mapping):
        problem = f"reward_extra_info is a {type(extra).__name__}, not a dict of lists"
    else:
        _check_tensor("the reward", result["reward_tensor"], batch, hook, tokenizer)
        for name, values in extra.items():
            if not hasattr(values, "__len__") or isinstance(values, str):
                problem = f"reward_extra_info[{name!r}] is a {type(values).__name__}, not a list of a value per sample"
            elif len(values) not in (0, len(batch)):
                problem = f"reward_extra_info[{name!r}] has {len(values)} values for {len(batch)} samples"
    if problem is not None:
        raise HookError(problem, source_of(hook))
    return result["reward_tensor"], extra


def _check_tensor(what: str, value: Any, batch: DataProto, hook: Any, tokenizer: Any) -> None:
    expected, sample = tuple(batch.batch["responses"].shape), None
    if not isinstance(value, torch.Tensor):
        problem = f"is a {type(value).__name__}, not a tensor"
    elif tuple(value.shape) != expected:
        problem = f"has shape {tuple(value.shape)}, not (batch size, response length) = {expected}"
        if tuple(value.shape) in (expected[:1], (expected[0], 1)):
            problem += ": give every token what its response has, value.view(-1, 1) * response_mask"
    elif not value.is_floating_point():
        problem = f"has dtype {value.dtype}, not a floating-point one"
    elif (bad := ~torch.isfinite(value).all(dim=-1)).any():
        row = int(bad.nonzero()[0])
        number = value[row][~torch.isfinite(value[row])][0].item()
        problem = f"is {number} in {int(bad.sum())} of {len(bad)} samples"
        sample = describe_sample(batch, row, tokenizer)
    else:
        return
    raise HookError(f"{what} {problem}", source_of(hook), sample)
