# vextract:template - edit freely
"""A step of PRIME (https://arxiv.org/abs/2502.01456): rewards for each token, by a model that learns from outcomes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError
from ..run.distributed import Ranks
from ..vendored.protocol import DataProto
from ..vendored.utils.torch_functional import masked_whiten
from ..workers.implicit_reward import ImplicitReward
from ..workers.trained_model import reduce_over_ranks
from .dynamic_sampling import SCORES, Scored, chosen_rows, joined, unreported, values_of, varying_groups
from .process_advantages import (
    groups_of,
    pairs_in_order,
    placed,
    process_advantages,
    rivals_and_weights,
    signs_right,
)
from .process_checks import KEY


class ProcessRewards:
    """Adds an advantage by process rewards to that by outcomes.

    Args:
        config: the whole config.
        model: the implicit reward model.
        ranks: this process among its peers; every one must make the same calls.
    """

    def __init__(self, config: Any, model: ImplicitReward, ranks: Ranks) -> None:
        self.config, self.section = config, config.local.prime
        self.model, self.ranks = model, ranks

    def add(self, batch: DataProto) -> dict[str, Any]:
        """Have the model learn, and add what it rewards to `advantages` and `returns`.

        Args:
            batch: the global batch, the same on every process, with `ref_log_prob`, `token_level_scores`, `advantages`
                and `response_mask`, (bs, response_length); gets `process_rewards` of that shape.

        Returns:
            Metrics reward_model/*: of what it has learned, and how often its rewards have the order of the outcomes.
        """
        section, uids = self.section, batch.non_tensor_batch["uid"]
        when = section["update"]  # a mapping has a method of that name
        mask = batch.batch["response_mask"]
        outcomes = self._outcomes(batch)
        rivals, weights = torch.zeros_like(outcomes), torch.ones_like(outcomes)
        rewards, metrics = None, dict[str, Any]()
        if when in ("none", "reverse") or section.loss_type != "ce":
            rewards = self.model.rewards(batch)
            rivals, weights = rivals_and_weights(rewards.sum(dim=1), outcomes, uids, section.loss_type)
        if when != "none":
            learned, found = self.model.learn(batch, outcomes, rivals, weights)
            metrics.update(reduce_over_ranks(found, self.ranks))
            metrics.update(_accuracy(learned, outcomes, uids, "_before"))
            if when == "before":
                rewards = self.model.rewards(batch)
            elif when == "after":
                rewards = learned
        assert rewards is not None
        given, where = placed(rewards, mask, section.prime_granularity, section.prime_norm)
        process = process_advantages(given, where, uids, self.config.algorithm.gamma)
        whole = section.reward_gt_coef * batch.batch["advantages"] + section.reward_dpo_coef * process
        batch.batch["process_rewards"] = rewards
        batch.batch["returns"] = whole * mask
        batch.batch["advantages"] = (masked_whiten(whole, mask) if section.whiten else whole) * mask
        sums = {"reward": given.sum(dim=1).mean(), "raw_reward": rewards.sum(dim=1).mean() / section.beta_train}
        metrics.update({f"reward_model/{name}": float(value) for name, value in sums.items()})
        return metrics | _accuracy(rewards, outcomes, uids, "")

    def _outcomes(self, batch: DataProto) -> torch.Tensor:
        """Return the outcome of each response, (bs,) float32."""
        return checked_outcomes(
            _outcome_values(self.section, batch, batch.batch["token_level_scores"], batch.non_tensor_batch)
        )


def checked_outcomes(values: np.ndarray) -> torch.Tensor:
    """Return outcomes as a tensor, (bs,) float32.

    Raises:
        ConfigError: one is not from 0 to 1.
    """
    wrong = [value for value in values if not 0 <= value <= 1]
    if wrong:
        raise ConfigError(
            f"{KEY}: the outcome of a response is {wrong[0]:g}, and PRIME learns outcomes from 0 to 1",
            f"set {KEY}.metric to a component of the reward that is, such as acc",
        )
    return torch.tensor(values, dtype=torch.float32)


def _accuracy(rewards: torch.Tensor, outcomes: torch.Tensor, uids: np.ndarray, when: str) -> dict[str, float]:
    sums = rewards.sum(dim=1)
    found = {"dpo_acc": pairs_in_order(sums, outcomes, uids), "dpo_acc_abs": signs_right(sums, outcomes)}
    return {f"reward_model/{name}{when}": value for name, value in found.items()}


def sample_by_accuracy(draw: Callable[[], Scored], config: Any, prompts: int, metrics: dict[str, float]) -> Scored:
    """Draw batches until enough prompts have responses that differ in outcome, whose mean is between the bounds.

    After `oversample_factor` times as many prompts as are wanted, the first of the others fill up.

    Args:
        draw: answers and scores the next batch of prompts; see `sample_until_full`.
        config: the whole config.
        prompts: how many groups are wanted.
        metrics: gets train/num_gen_batches, and the share of groups that was within the bounds, train/kept_groups.

    Returns:
        The groups of all draws, as if they were one batch.
    """
    section, drawn = config.local.prime, list[Scored]()
    good, others = list[Any](), list[Any]()
    while len(good) < prompts and len(good) + len(others) < max(section.oversample_factor, 1) * prompts:
        drawn.append(draw())
        for uid, is_good in _judged(drawn[-1], section, config.data.max_response_length):
            (good if is_good else others).append(uid)
    metrics["train/num_gen_batches"] = len(drawn)
    metrics["train/kept_groups"] = len(good) / (len(good) + len(others))
    whole = joined(drawn)
    chosen = [*good, *others][:prompts]
    return chosen_rows(*whole, np.flatnonzero(np.isin(whole[0].non_tensor_batch["uid"], chosen)))


def _judged(scored: Scored, section: Any, longest: int) -> Iterator[tuple[Any, bool]]:
    """Yield each prompt with whether its responses are of the accuracy asked for, and were not cut off."""
    batch, rewards, extra = scored
    values, uids = _outcome_values(section, batch, rewards, extra), batch.non_tensor_batch["uid"]
    varying = set(varying_groups(uids, values))
    lengths = batch.batch["response_mask"].sum(dim=1).numpy()
    for rows in groups_of(uids):
        is_cut = section.filter_truncate and lengths[rows].max() >= longest
        within = section.accuracy_lower_bound <= values[rows].mean() <= section.accuracy_upper_bound
        uid = uids[rows[0]]
        yield uid, bool(within and not is_cut and uid in varying)


def _outcome_values(section: Any, batch: DataProto, rewards: torch.Tensor, components: Mapping[str, Any]) -> np.ndarray:
    """Return the outcome of each response by `metric`, (bs,): its reward where it has no such component."""
    if section.metric and section.metric not in (*SCORES, *components):
        raise unreported(section.metric, f"{KEY}.metric", batch, components)
    values = values_of(section.metric or "acc", batch.non_tensor_batch["uid"], rewards, components)
    return np.where(np.isnan(values), rewards.sum(dim=-1).numpy(), values)
