# vextract:template - edit freely
"""Dynamic sampling: groups of equal rewards teach nothing, so others are drawn (https://arxiv.org/abs/2503.14476).

The settings, `algorithm.filter_groups` and `data.gen_batch_size`, are those of upstream's DAPO recipe.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError
from ..vendored.protocol import DataProto

Scored = tuple[DataProto, torch.Tensor, dict[str, list[Any]]]


def sample_until_full(
    draw: Callable[[], Scored], config: Any, prompts: int, metrics: dict[str, float], in_all: int = 0
) -> Scored:
    """Draw batches until there are enough groups of responses whose rewards differ.

    Args:
        draw: answers and scores the next batch of prompts: the batch, its rewards (bs, response_length), and their
            components, lists of bs values. Responses to the same prompt have the same `uid`.
        config: the whole config.
        prompts: how many groups are wanted.
        metrics: gets train/num_gen_batches, and the share of groups that was kept, train/kept_groups.
        in_all: so many batches have all the data, `trainer.total_epochs` times: as many as upstream draws at most; 0:
            it is not known.

    Returns:
        The kept groups of all draws, as if they were one batch; the first `prompts` of them.

    Raises:
        ConfigError: `max_num_gen_batches` batches have not been enough, or all the data.
    """
    section = config.algorithm.filter_groups
    kept: list[Scored] = []
    groups = drawn = 0
    most = section.max_num_gen_batches if section.max_num_gen_batches > 0 else in_all
    while groups < prompts:
        if 0 < most <= len(kept):
            raise ConfigError(
                f"{len(kept)} batches with {drawn} prompts have given {groups} groups whose {section.metric} differs, "
                f"and {prompts} are wanted",
                "the task is too hard or too easy for the policy; or raise algorithm.filter_groups.max_num_gen_batches "
                "(0: until all the data were drawn trainer.total_epochs times), data.gen_batch_size or "
                "actor_rollout_ref.rollout.n",
            )
        batch, rewards, extra = draw()
        uids = batch.non_tensor_batch["uid"]
        keep = np.isin(uids, varying_groups(uids, values_of(section.metric, rewards, extra)))
        kept.append(chosen_rows(batch, rewards, extra, np.flatnonzero(keep)))
        drawn += len(set(uids))
        groups += len(set(uids[keep]))
    metrics["train/num_gen_batches"] = len(kept)
    metrics["train/kept_groups"] = groups / drawn
    whole = joined(kept)
    first = list(dict.fromkeys(whole[0].non_tensor_batch["uid"]))[:prompts]
    return chosen_rows(*whole, np.flatnonzero(np.isin(whole[0].non_tensor_batch["uid"], first)))


def varying_groups(uids: np.ndarray, values: np.ndarray) -> list[Any]:
    """Return the prompts (uids) whose responses differ in value; a prompt with one response counts as well.

    Args:
        uids, values: (bs,).
    """
    groups: dict[Any, list[float]] = {}
    for uid, value in zip(uids, values, strict=True):
        groups.setdefault(uid, []).append(float(value))
    return [uid for uid, group in groups.items() if len(group) == 1 or max(group) > min(group)]


def group_metrics(uids: np.ndarray, rewards: torch.Tensor) -> dict[str, float]:
    """Measure how many prompts teach an estimator that compares responses within a group (GRPO, RLOO...) nothing.

    Args:
        uids: which prompt each response answers, (bs,).
        rewards: of the responses, without a KL penalty, (bs, response_length).

    Returns:
        critic/rewards/frac_zero_std, the share of prompts whose responses all have the same reward; TRL reports it as
        frac_reward_zero_std. Nothing if each prompt has one response.
    """
    prompts = len(set(uids))
    if prompts == len(uids):
        return {}
    varying = len(varying_groups(uids, rewards.sum(dim=-1).numpy()))
    return {"critic/rewards/frac_zero_std": 1 - varying / prompts}


def values_of(
    metric: str, rewards: torch.Tensor, extra: Mapping[str, Any], key: str = "algorithm.filter_groups.metric"
) -> np.ndarray:
    """Return what each response is worth by a metric, (bs,).

    Args:
        metric: seq_reward, or a component of the reward.
        rewards: (bs, response_length).
        extra: the components, bs values each.
        key: the setting that names the metric.

    Raises:
        ConfigError: the reward reports no such component.
    """
    if metric in ("seq_reward", "seq_final_reward"):
        return rewards.sum(dim=-1).numpy()
    if metric not in extra:
        raise ConfigError(
            f"{key} is {metric!r}, which the reward does not report",
            f"choose one of: {', '.join(sorted([*extra, 'seq_reward']))}",
        )
    return np.array(extra[metric], dtype=float)


def chosen_rows(batch: DataProto, rewards: torch.Tensor, extra: dict[str, list[Any]], rows: np.ndarray) -> Scored:
    """Return some rows of a batch that is scored."""
    return batch[rows], rewards[rows], {name: [values[row] for row in rows] for name, values in extra.items()}


def joined(parts: list[Scored]) -> Scored:
    """Return batches that are scored as one, with the components that all of them have."""
    full = [part for part in parts if len(part[0])]
    names = [name for name in full[0][2] if all(name in extra for _, _, extra in full)]
    extra = {name: [value for _, _, values in full for value in values[name]] for name in names}
    return DataProto.concat([batch for batch, _, _ in full]), torch.cat([rewards for _, rewards, _ in full]), extra
