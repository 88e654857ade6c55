# vextract:template - edit freely
"""What goes to the rollout, and what is measured, and shown, of what came back."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..switches import HF, STEP_HOOKS, WATCH
from ..vendored.protocol import DataProto

# What the reward needs, which stays with the batch; the other columns go to the rollout, and come back from it.
REWARD_COLUMNS = {"data_source", "reward_model", "extra_info", "uid"}


def generation_batch(batch: DataProto) -> DataProto:
    """Take from a batch what the rollout needs.

    Args:
        batch: prompts; loses input_ids, attention_mask, position_ids, (bs, prompt_length), which the rollout returns
            with the response attached, and the columns that the reward does not need. Those that it needs are in both.
    """
    columns = set(batch.non_tensor_batch) - REWARD_COLUMNS
    prompts: DataProto = batch.pop(
        batch_keys=["input_ids", "attention_mask", "position_ids"], non_tensor_batch_keys=sorted(columns)
    )
    prompts.non_tensor_batch.update(batch.non_tensor_batch)  # the rollout does not return them
    return prompts


def objects(values: Iterable[Any]) -> np.ndarray:
    """Return a column of objects; numpy would make a matrix of lists of one length."""
    return np.fromiter(values, dtype=object)


def add_columns(batch: DataProto, components: dict[str, list[Any]]) -> None:
    """Keep the components of a reward with the batch, which the estimators may read.

    Args:
        batch: scored samples. What says which sample is which (`uid` groups the responses to a prompt) stays as it is.
        components: lists of one value for each sample; a value may be a list of any length, None, or a row of a tensor.
    """
    for name, values in components.items():
        if name in REWARD_COLUMNS:
            continue
        if STEP_HOOKS:
            if all(isinstance(value, torch.Tensor) for value in values) and name not in batch.batch.keys():
                batch.batch[name] = torch.stack(values).to(batch.batch["responses"].device)
                continue
        try:
            column = np.array(values)
        except ValueError:  # lists of different lengths
            column = objects(values)
        batch.non_tensor_batch[name] = column


def joined_components(parts: Sequence[tuple[int, Mapping[str, list[Any]]]]) -> dict[str, list[Any]]:
    """Return the components of several batches as those of one; None where a batch has no such component.

    Args:
        parts: the size and the components of each batch.
    """
    names = dict.fromkeys(name for _, components in parts for name in components)
    return {
        name: [value for size, components in parts for value in components.get(name, [None] * size)] for name in names
    }


def group_metrics(uids: np.ndarray, rewards: torch.Tensor) -> dict[str, float]:
    """Return the share of prompts whose responses all have the same reward: GRPO and its kin learn nothing there.

    Args:
        uids: which prompt each response answers, (bs,).
        rewards: of the responses, without a KL penalty, (bs, response_length).

    Returns:
        critic/rewards/frac_zero_std, the share of prompts whose responses all have the same reward; TRL reports it as
        frac_reward_zero_std. Nothing if each prompt has one response.
    """
    groups: dict[Any, list[float]] = {}
    for uid, reward in zip(uids, rewards.sum(dim=-1).tolist(), strict=True):
        groups.setdefault(uid, []).append(reward)
    if len(groups) == len(uids):
        return {}
    told_nothing = [group for group in groups.values() if len(group) > 1 and len(set(group)) == 1]
    return {"critic/rewards/frac_zero_std": len(told_nothing) / len(groups)}


def reward_metrics(extra: dict[str, list[Any]]) -> dict[str, float]:
    """Return the mean of each numeric component of the reward, as `reward/<name>/mean`; None: no score of this one."""
    metrics = {}
    for name, given in extra.items():
        values = [value for value in given if value is not None]
        kinds = set(map(type, values))
        if kinds and all(issubclass(kind, (numbers.Real, np.bool_)) for kind in kinds):
            metrics[f"reward/{name}/mean"] = float(np.mean(np.array(values, dtype=float)))
    return metrics


if WATCH or not HF:

    def rollout_metrics(of_engine: torch.Tensor, own: torch.Tensor, mask: torch.Tensor) -> dict[str, float]:
        """Compute metrics named training/rollout_probs_diff_*, as upstream does, and training/rollout_log_probs_diff_*.

        Args:
            of_engine, own: log-probabilities of the sampled tokens, (bs, response_length).
            mask: of what the model wrote, (bs, response_length) bool. Without a token there are no metrics.
        """
        of_engine, own = of_engine[mask], own[mask]
        if not len(own):
            return {}
        probs, log_probs = (of_engine.exp() - own.exp()).abs(), (of_engine - own).abs()
        return {
            "training/rollout_probs_diff_max": probs.max().item(),
            "training/rollout_probs_diff_mean": probs.mean().item(),
            "training/rollout_probs_diff_std": probs.std().item(),
            "training/rollout_log_probs_diff_max": log_probs.max().item(),
            "training/rollout_log_probs_diff_mean": log_probs.mean().item(),
        }


def sample_rows(
    batch: DataProto, scores: Sequence[float | None], tokenizer: Any, infos: Mapping[str, list[Any]] | None = None
) -> list[dict[str, Any]]:
    """Return the samples of a batch as text: prompt, response, ground_truth, score, uid, data_source, components.

    Args:
        batch: the samples.
        scores: one for each.
        tokenizer: decodes them.
        infos: the components of the reward, one value for each sample; None: it has no such component.
    """
    texts = [tokenizer.batch_decode(batch.batch[name], skip_special_tokens=True) for name in ("prompts", "responses")]
    columns, size = batch.non_tensor_batch, len(batch)
    truths = [(model or {}).get("ground_truth") for model in columns.get("reward_model", [None] * size)]
    uids, sources = columns.get("uid", [None] * size), columns.get("data_source", ["unknown"] * size)
    parts = [
        {
            name: values[row]
            for name, values in (infos or {}).items()
            if len(values) == size and not isinstance(values[row], torch.Tensor | None)
        }
        for row in range(size)
    ]
    names = ("prompt", "response", "ground_truth", "score", "uid", "data_source", "components")
    return [
        dict(zip(names, row, strict=True)) for row in zip(*texts, truths, scores, uids, sources, parts, strict=True)
    ]


def shown_rows(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return a few samples to show, of the same prompts each time: the first of a shuffle with a fixed seed."""
    order = sorted(range(len(rows)), key=lambda index: rows[index]["prompt"])
    np.random.RandomState(42).shuffle(order)  # type: ignore[arg-type]
    return [{**rows[index], "split": "validation"} for index in order[:count]]
