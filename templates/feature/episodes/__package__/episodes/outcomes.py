# vextract:template - edit freely
"""What came of the episodes of a batch: their rewards, their failures, and the metrics of both."""

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..agents.agent_loop import session_metrics
from ..errors import ConfigError
from ..hooks import HookError, describe_sample
from ..switches import AGENTS, TOOLS
from ..training.batches import REWARD_COLUMNS, objects
from ..vendored.algorithms.core_algos import agg_loss
from ..vendored.protocol import DataProto
from .checks import is_reward
from .places import FAILED


class Outcomes:
    """Turns what environments have said into what reward managers and the trainer read.

    Args:
        config: the whole config; `local.env` is read.
        tokenizer: decodes the sample that an error shows.
        shows_errors: whether this process prints the first failure of the run.
    """

    def __init__(self, config: Any, tokenizer: Any, shows_errors: bool) -> None:
        self.config = config
        self.settings = config.local.env
        self.tokenizer = tokenizer
        self.shows_errors = self.shows_taken = shows_errors
        mode = config.actor_rollout_ref.actor.loss_agg_mode
        empty_row = torch.tensor([[1.0], [0.0]])
        if self.settings.mask_errors and not agg_loss(torch.zeros(2, 1), empty_row, mode).isfinite():
            raise ConfigError(
                f"local.env.mask_errors leaves samples without a token, and loss_agg_mode={mode} of this release "
                "divides by their number",
                "local.env.mask_errors=false, or another actor_rollout_ref.actor.loss_agg_mode",
            )

    def settle(self, batch: DataProto, data: Mapping[str, Any]) -> DataProto:
        """Add the rewards of the environments to a global batch of episodes.

        The sample of an environment that failed gets `local.env.error_reward`; null stands for the mean reward of the
        other samples of its prompt, 0 where there is none: the mean of the prompt stays as it is. With
        `local.env.mask_errors` it is not trained on.

        Args:
            batch: as `EpisodeLoop.run` returns it.
            data: the columns of the prompts; `uid` says which prompt each episode began with, (bs,).

        Returns:
            The same batch. If `local.env.is_reward`: with rm_scores (bs, response_length) float32, and in `meta_info`
            the names of further components of the reward, which are columns, as reward_extra_keys. A reward manager
            returns these as they are (upstream: verl/workers/reward_manager/naive.py). What is reported under the name
            of another column is left out.

        Raises:
            HookError: more than `local.env.max_error_share` of the environments failed.
        """
        columns = batch.non_tensor_batch
        failed = np.array([end in FAILED for end in columns["env_end"]])
        if failed.any():
            self._report(batch, failed)
            self._reward_failed(columns["turn_scores"], failed, data["uid"])
            if self.settings.mask_errors:
                batch.batch["response_mask"][torch.from_numpy(failed)] = 0
        infos, taken = columns.pop("env_info"), {*columns, *data, *REWARD_COLUMNS}
        components = _components(infos, taken)
        self._say_taken(sorted({str(name) for info in infos for name in info} & taken))
        columns.update(components)
        if is_reward(self.config):
            batch.batch["rm_scores"] = self._placed(columns["turn_scores"], columns["turn_ends"], batch)
            batch.meta_info["reward_extra_keys"] = [*sorted(components), "turns"]
        return batch

    def _placed(self, scores: Any, ends: Any, batch: DataProto) -> torch.Tensor:
        """Return the rewards at the tokens that they are for, (bs, response_length) float32."""
        placed = torch.zeros(batch.batch["responses"].shape, dtype=torch.float32)
        for row, (row_scores, row_ends) in enumerate(zip(scores, ends, strict=True)):
            if self.settings.reward_at == "turn":
                placed[row, row_ends] = torch.tensor(row_scores)
            else:
                placed[row, row_ends[-1]] = sum(row_scores)
        return placed

    def _reward_failed(self, scores: Any, failed: np.ndarray, uids: Sequence[Any]) -> None:
        others = defaultdict(list)
        for row in np.flatnonzero(~failed):
            others[uids[row]].append(sum(scores[row]))
        for row in np.flatnonzero(failed):
            reward = self.settings.error_reward
            if reward is None:
                reward = float(np.mean(others[uids[row]] or [0.0]))
            scores[row] = [0.0] * (len(scores[row]) - 1) + [reward]

    def _report(self, batch: DataProto, failed: np.ndarray) -> None:
        """Print the first failure of the run; end it if too many of the batch failed."""
        columns = batch.non_tensor_batch
        row = int(failed.argmax())
        message, where = columns["env_error"][row], columns["env_error_file"][row]
        if failed.mean() > self.settings.max_error_share:
            raise HookError(
                f"{failed.sum()} of {len(failed)} environments failed, more than local.env.max_error_share="
                f"{self.settings.max_error_share:g} allows; the first: {message}",
                where,
                describe_sample(batch, row, self.tokenizer),
            )
        if self.shows_errors:
            self.shows_errors = False
            counts = f"{failed.sum()} of {len(failed)} environments failed"
            print(f"warning: {counts}; the first: {message}\n  hook: {where}", file=sys.stderr)
            print("  (shown once; the metrics env/errors and env/timeouts count them)", file=sys.stderr)

    def _say_taken(self, names: list[str]) -> None:
        if names and self.shows_taken:
            self.shows_taken = False
            print(
                f"warning: the environments report {', '.join(names)} in info, which are columns of the batch already: "
                "these are left out; give them other names\n  (shown once)",
                file=sys.stderr,
            )


def episode_metrics(batch: DataProto) -> dict[str, float]:
    """Compute metrics named env/* of a batch of episodes; none of a batch of single turns."""
    columns = batch.non_tensor_batch
    if "env_end" not in columns:
        return {}
    ends = Counter(columns["env_end"])
    responses = batch.batch["attention_mask"][:, -batch.batch["responses"].shape[1] :]
    sampled = batch.batch["response_mask"]
    trained = sampled.any(dim=-1)
    answered = (responses - sampled)[trained].sum(dim=-1)
    metrics = {
        "env/turns/mean": float(columns["turns"].mean()),
        "env/turns/min": float(columns["turns"].min()),
        "env/turns/max": float(columns["turns"].max()),
        "env/return/mean": float(np.mean([sum(scores) for scores in columns["turn_scores"]])),
        "env/observation_tokens/mean": float(answered.float().mean()) if len(answered) else 0.0,
        **{f"env/{end}": ends[end] / len(batch) for end in ("terminated", "truncated", "turns_spent", "budget_spent")},
        "env/errors": float(ends["error"]),
        "env/timeouts": float(ends["timeout"]),
        "perf/env_seconds": float(columns["env_seconds"].max()),
    }
    if TOOLS and "tool_calls" in columns:
        metrics |= {f"env/{name}/mean": float(columns[name].mean()) for name in ("tool_calls", "tool_errors")}
    if AGENTS and "agent_counts" in columns:
        metrics |= session_metrics(columns["agent_counts"])
    return metrics


def _components(infos: Any, taken: set[str]) -> dict[str, np.ndarray]:
    """Return what the environments reported: a column for each name, of numbers or of texts; None: not reported."""
    columns = {}
    for name in sorted({str(name) for info in infos for name in info} - taken):
        values = [info.get(name) for info in infos]
        given = [value for value in values if value is not None]
        if all(isinstance(value, str) for value in given):
            columns[name] = objects(values)
        elif all(isinstance(value, bool | int | float | np.number | np.bool_) for value in given):
            numbers = [None if value is None else float(value) for value in values]
            columns[name] = objects(numbers) if None in numbers else np.array(numbers)
    return columns
