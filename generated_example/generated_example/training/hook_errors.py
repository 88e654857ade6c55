# vextract:template base/__package__/training/hook_errors.py
"""Check what the hooks return, and say which hook was wrong, on which sample, before the numbers spread.

A NaN in one reward reaches every weight within a step, and a tensor of the wrong shape is often broadcast without a
word. So each hook's result is checked where it enters the trainer.
"""

import asyncio
import inspect
import linecache
import numbers
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import ProjectError
from ..rewards.calls import own_line, source_of, staying_in_process
from ..rewards.scoring import ScoringError
from ..vendored.protocol import DataProto
from . import registries

# How long to look for the sample that made a reward raise, in seconds.
SEARCH_LIMIT = 20.0
# Where verl's reward managers are, and what computes rewards with them.
MANAGERS = tuple(
    str(Path(__file__).parents[1] / place)
    for place in ("vendored/workers/reward_", "vendored/algorithms/reward", "training/reward")
)


class HookError(ProjectError, RuntimeError):
    """A hook raised an exception, or returned what the trainer cannot use.

    Attributes:
        message: what is wrong.
        hook_file: the hook's source, as "path" or "path:line".
        sample: the first row that shows it, as prompt, response, ground_truth...; None if no single row does.
    """

    def __init__(self, message: str, hook_file: str, sample: dict[str, Any] | None = None) -> None:
        super().__init__(message, hook_file, sample)  # all of them, so that it can be pickled
        self.message = message
        self.hook_file = hook_file
        self.sample = sample

    def __str__(self) -> str:
        lines = [self.message, f"  hook: {self.hook_file}"]
        path, _, number = self.hook_file.rpartition(":")
        text = linecache.getline(path, int(number)).strip() if number.isdigit() else ""
        if text and text not in self.message:
            lines.append(f"        {text}")
        if self.sample is not None:
            lines.append("  sample: " + ", ".join(f"{name}={value!r}" for name, value in self.sample.items()))
        return "\n".join(lines)


def call_reward(reward_fn: Any, batch: DataProto, tokenizer: Any) -> tuple[torch.Tensor, dict[str, list[Any]]]:
    """Compute the reward of a batch, and check it.

    The hook is called exactly once, with a copy of the batch. (verl's `compute_reward`, where a release has it, catches
    what it raises and calls it again.) Only if it raised, and does not say for which sample, it is called again for one
    sample after another, to find the first that makes it raise.

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
        with staying_in_process():
            result = call_manager(reward_fn, given)
    except ScoringError as error:
        sample = None if error.row is None else describe_sample(batch, error.row, tokenizer)
        raise HookError(error.message, error.hook_file, sample) from error
    except Exception as error:
        row = _first_bad_row(reward_fn, batch)
        sample = None if row is None else describe_sample(batch, row, tokenizer)
        hook = _hook_of(reward_fn)
        message = f"the reward raised {type(error).__name__}: {error}"
        where = raised_in(error)
        if where is not None and where.startswith(MANAGERS) and inspect.isroutine(hook):
            # verl's manager could not use what the owner's function had returned.
            message = f"{message}\n  where {Path(where).name} takes what it returned"
            where = None
        raise HookError(message, where or source_of(hook), sample) from error

    hook_file = source_of(_hook_of(reward_fn))
    if "reward_tensor" not in result:
        raise HookError(f"the reward is a dict without reward_tensor; it has {sorted(map(str, result))}", hook_file)
    reward, extra = result["reward_tensor"], result.get("reward_extra_info")
    extra = {} if extra is None else extra
    _check_tensor("the reward", reward, batch, hook_file, tokenizer)
    if not isinstance(extra, Mapping):
        raise HookError(f"reward_extra_info is a {type(extra).__name__}, not a dict of lists", hook_file)
    for name, values in extra.items():
        if not hasattr(values, "__len__") or isinstance(values, str):
            kind = type(values).__name__
            raise HookError(f"reward_extra_info[{name!r}] is a {kind}, not a list of a value per sample", hook_file)
        if len(values) not in (0, len(batch)):
            raise HookError(f"reward_extra_info[{name!r}] has {len(values)} values for {len(batch)} samples", hook_file)
    plain = {name: [*map(_plain, values)] for name, values in extra.items() if len(values)}
    return reward.detach().to(batch.batch["responses"].device, torch.float32), plain


def _plain(value: Any) -> Any:
    """Return what a tensor holds: it may be on another device, or have a gradient, and is no number to metrics."""
    if type(value) is float or not isinstance(value, torch.Tensor):
        return value
    return value.item() if value.numel() == 1 else value.tolist()


def check_advantages(batch: DataProto, estimator: str, tokenizer: Any = None) -> None:
    """Check `advantages` and `returns` of a batch, after `compute_advantage`.

    Raises:
        HookError: one of them has a wrong shape or dtype, or NaN or infinity in it; names the estimator's file.
    """
    function = registries.ADV_ESTIMATOR_REGISTRY.get(str(getattr(estimator, "value", estimator)))
    hook_file = source_of(function) if function is not None else str(estimator)
    for name in ("advantages", "returns"):
        _check_tensor(f"{name} of the estimator {estimator!r}", batch.batch[name], batch, hook_file, tokenizer)


def reward_metrics(extra: dict[str, list[Any]]) -> dict[str, float]:
    """Return the mean of each numeric component of the reward, as `reward/<name>/mean`; None: no score of this one."""
    metrics = {}
    for name, given in extra.items():
        values = [value for value in given if value is not None]
        kinds = set(map(type, values))
        if kinds and all(issubclass(kind, (numbers.Real, np.bool_)) for kind in kinds):
            try:
                metrics[f"reward/{name}/mean"] = float(np.mean(np.array(values, dtype=float)))
            except OverflowError:  # an integer too large for a float
                metrics[f"reward/{name}/mean"] = float("nan")
    return metrics


def describe_sample(batch: DataProto, row: int, tokenizer: Any) -> dict[str, Any]:
    """Return one row of a batch, as a person wants to read it."""
    sample: dict[str, Any] = {"index": row}
    prompt_length = batch.batch["prompts"].shape[-1] if "prompts" in batch.batch.keys() else 0
    for name, columns in (("prompt", slice(None, prompt_length)), ("response", slice(prompt_length, None))):
        ids = batch.batch.get(f"{name}s")
        if ids is not None and tokenizer is not None:
            valid = batch.batch["attention_mask"][row, columns].bool()
            sample[name] = tokenizer.decode(ids[row][valid].tolist(), skip_special_tokens=True)
    reward_model = batch.non_tensor_batch.get("reward_model")
    if reward_model is not None and isinstance(reward_model[row], dict):
        sample["ground_truth"] = reward_model[row].get("ground_truth")
    if "data_source" in batch.non_tensor_batch:
        sample["data_source"] = batch.non_tensor_batch["data_source"][row]
    return sample


def hook_file_of(error: BaseException, hook: Any) -> str:
    """Return where a hook failed: the project's own line that raised, or else the file that defines the hook."""
    return raised_in(error) or source_of(hook)


def call_manager(reward_fn: Any, batch: DataProto) -> dict[str, Any]:
    """Return what a reward manager returns for a batch, as a dictionary: its scores are `reward_tensor`."""
    takes_it = "return_dict" in inspect.signature(reward_fn).parameters
    result = reward_fn(batch, return_dict=True) if takes_it else reward_fn(batch)
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    return result if isinstance(result, dict) else {"reward_tensor": result}


async def _awaited(result: Any) -> Any:
    return await result


def _first_bad_row(reward_fn: Any, batch: DataProto) -> int | None:
    start = time.monotonic()
    for row in range(len(batch)):
        if time.monotonic() - start > SEARCH_LIMIT:
            return None
        try:
            call_manager(reward_fn, batch[row : row + 1])
        except Exception:
            return row
    return None


def _hook_of(reward_fn: Any) -> Any:
    """Return the part of a reward manager that the owner wrote: the scoring function, or the manager itself."""
    while hasattr(reward_fn, "manager"):  # behind a reward model, or in an event loop
        reward_fn = reward_fn.manager
    score: Any = getattr(reward_fn, "compute_score", None)
    raw: Any = score.args[0] if getattr(score, "args", ()) else score  # verl wraps it in functools.partial
    if callable(raw) and getattr(raw, "__name__", "") != "default_compute_score":
        return raw
    return reward_fn


def raised_in(error: BaseException) -> str | None:
    """Return the last line of a traceback that is neither an installed library's nor of the code that calls hooks."""
    return own_line(error, __file__)


def _check_tensor(what: str, value: Any, batch: DataProto, hook_file: str, tokenizer: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise HookError(f"{what} is a {type(value).__name__}, not a tensor", hook_file)
    expected = tuple(batch.batch["responses"].shape)
    if tuple(value.shape) != expected:
        message = f"{what} has shape {tuple(value.shape)}, not (batch size, response length) = {expected}"
        if tuple(value.shape) in (expected[:1], (expected[0], 1)):
            message += ": give every token what its response has, value.view(-1, 1) * response_mask"
        raise HookError(message, hook_file)
    if not value.is_floating_point():
        raise HookError(f"{what} has dtype {value.dtype}, not a floating-point one", hook_file)
    bad = ~torch.isfinite(value).all(dim=-1)
    if bad.any():
        row = int(bad.nonzero()[0])
        number = value[row][~torch.isfinite(value[row])][0].item()
        message = f"{what} is {number} in {int(bad.sum())} of {len(bad)} samples"
        raise HookError(message, hook_file, describe_sample(batch, row, tokenizer))
