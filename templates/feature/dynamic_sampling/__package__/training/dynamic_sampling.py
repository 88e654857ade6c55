# vextract:template - edit freely
"""Dynamic sampling: groups of equal rewards teach nothing, so others are drawn (https://arxiv.org/abs/2503.14476).

The settings, `algorithm.filter_groups` and `data.gen_batch_size`, are those of upstream's DAPO recipe.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import ConfigError
from ..switches import PRIME
from ..tracking import timed
from ..vendored.protocol import DataProto
from .batches import add_columns, joined_components
from .rollouts import Metrics, Reward

if TYPE_CHECKING:
    from .trainer import LocalPPOTrainer

Scored = tuple[DataProto, torch.Tensor, dict[str, list[Any]]]
# The metrics that are the reward itself.
SCORES = ("reward", "seq_reward", "seq_final_reward")


def choice_of(trainer: "LocalPPOTrainer") -> Callable[..., Scored] | None:
    """Return what chooses the prompts that a step learns from; None: it learns from all that are drawn."""
    config = trainer.config
    if config.algorithm.filter_groups.enable:
        in_all = config.trainer.total_epochs * len(trainer.train_loader)
        return partial(sample_until_full, in_all=in_all, reported=trainer.reported)
    if PRIME and config.local.prime.enable and config.local.prime.filter_accuracy:
        from .process_rewards import sample_by_accuracy

        return sample_by_accuracy
    return None


def collect(
    trainer: "LocalPPOTrainer",
    choose: Callable[..., Scored],
    prompts: dict[str, Any],
    timing: dict[str, float],
    metrics: Metrics,
) -> tuple[DataProto, Reward]:
    """Return a batch of responses and its reward, with others drawn in place of prompts that `choose` leaves out.

    Args:
        trainer: whose prompts are drawn, answered and scored.
        choose: what `choice_of` returns.
        prompts: the first batch of them.
        timing, metrics: of the step.
    """
    waiting = [prompts]

    def draw() -> Scored:
        batch = trainer.answers.answer(waiting.pop() if waiting else next(trainer.prompts), timing, metrics)
        with timed("reward", timing):
            return batch, *trainer.answers.score(batch)

    batch, scores, extra = choose(draw, trainer.config, trainer.config.data.train_batch_size, metrics)
    batch.batch["token_level_scores"] = scores
    add_columns(batch, extra)
    trainer.arrange(batch, metrics)
    columns = batch.non_tensor_batch  # in the current order of the rows
    extra = {name: list(columns[name]) for name in extra if name in columns}
    return batch, (batch.batch["token_level_scores"], extra)


def sample_until_full(
    draw: Callable[[], Scored],
    config: Any,
    prompts: int,
    metrics: dict[str, float],
    in_all: int = 0,
    reported: set[str] | None = None,
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
        reported: the components that a batch of the run has reported so far; gets those of these draws.

    Returns:
        The kept groups of all draws, as if they were one batch; the first `prompts` of them.

    Raises:
        ConfigError: `max_num_gen_batches` batches have not been enough, or all the data; or the first batch does not
            report the metric.
    """
    reported = set() if reported is None else reported
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
        reported.update(name for name, values in extra.items() if any(value is not None for value in values))
        if section.metric not in (*SCORES, *reported):
            raise unreported(section.metric, "algorithm.filter_groups.metric", batch, extra)
        keep = np.isin(uids, varying_groups(uids, values_of(section.metric, uids, rewards, extra)))
        kept.append(chosen_rows(batch, rewards, extra, np.flatnonzero(keep)))
        drawn += len(set(uids))
        groups += len(set(uids[keep]))
    metrics["train/num_gen_batches"] = len(kept)
    metrics["train/kept_groups"] = groups / drawn
    whole = joined(kept)
    first = list(dict.fromkeys(whole[0].non_tensor_batch["uid"]))[:prompts]
    return chosen_rows(*whole, np.flatnonzero(np.isin(whole[0].non_tensor_batch["uid"], first)))


def values_of(metric: str, uids: np.ndarray, rewards: torch.Tensor, extra: Mapping[str, Any]) -> np.ndarray:
    """Return what each response is worth by a metric, (bs,).

    Where none of the responses to a prompt has the component, their rewards count. Where some have it, the others are
    NaN.

    Args:
        metric: reward or seq_reward, or a component of the reward.
        uids: which prompt each response answers, (bs,).
        rewards: (bs, response_length).
        extra: the components, bs values each, None where a response has none.

    Raises:
        ConfigError: the component is not a number.
    """
    scores: np.ndarray = rewards.sum(dim=-1).numpy()
    if metric in SCORES or metric not in extra:
        return scores
    try:
        values = np.array(extra[metric], dtype=float)
    except (TypeError, ValueError):
        numbers = ", ".join(sorted(name for name, given in extra.items() if not isinstance(given[0], str)))
        raise ConfigError(f"{metric!r} is no number, and cannot be compared", f"choose one of: {numbers}") from None
    told = set(uids[~np.isnan(values)])
    return np.where([uid in told for uid in uids], values, scores)


def unreported(metric: str, key: str, batch: DataProto, extra: Mapping[str, Any]) -> ConfigError:
    """Return the error that no sample of a batch has the component that a setting names."""
    sources = sorted({str(source) for source in batch.non_tensor_batch.get("data_source", ())})
    of = f" (data_source: {', '.join(sources)})" if sources else ""
    return ConfigError(
        f"{key} is {metric!r}, which the reward does not report{of}",
        f"choose one of: {', '.join(sorted([*extra, 'seq_reward']))}",
    )


def chosen_rows(batch: DataProto, rewards: torch.Tensor, extra: dict[str, list[Any]], rows: np.ndarray) -> Scored:
    """Return some rows of a batch that is scored."""
    return batch[rows], rewards[rows], {name: [values[row] for row in rows] for name, values in extra.items()}


def joined(parts: list[Scored]) -> Scored:
    """Return batches that are scored as one."""
    full = [part for part in parts if len(part[0])]
    extra = joined_components([(len(batch), extra) for batch, _, extra in full])
    return DataProto.concat([batch for batch, _, _ in full]), torch.cat([rewards for _, rewards, _ in full]), extra


def varying_groups(uids: np.ndarray, values: np.ndarray) -> list[Any]:
    """Return the prompts (uids) whose responses differ in value; a prompt with one response counts as well.

    Args:
        uids, values: (bs,). A response whose value is NaN does not count.
    """
    groups: dict[Any, list[float]] = {}
    for uid, value in zip(uids, values, strict=True):
        groups.setdefault(uid, []).append(float(value))
    told = {uid: [value for value in group if not math.isnan(value)] for uid, group in groups.items()}
    return [uid for uid, group in groups.items() if len(group) == 1 or len(set(told[uid])) > 1]
