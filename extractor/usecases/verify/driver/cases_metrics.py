# mypy: disable-error-code="misc"
"""Metrics, with upstream's names, and validation over bootstrap samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from . import inputs
from .cases import Thunk, family, outcome
from .sides import Side

MODULE = "verl.trainer.ppo.metric_utils"


def trained_batch(side: Side, *, aborted: bool = False) -> Any:
    """Return a batch as it is at the end of a step."""
    mask = inputs.response_mask(empty=aborted)
    prompt_mask = (torch.arange(inputs.PROMPT)[None, :] >= torch.tensor([0, 3, 1, 2, 0, 5, 4, 6])[:, None]).long()
    tensors = {
        "prompts": torch.ones(inputs.BATCH, inputs.PROMPT, dtype=torch.long),
        "responses": torch.ones(inputs.BATCH, inputs.LENGTH, dtype=torch.long),
        "response_mask": mask,
        "attention_mask": torch.cat([prompt_mask, mask], dim=1),
        "token_level_scores": inputs.rewards(dense=True, mask=mask),
        "token_level_rewards": inputs.rewards(dense=False, mask=mask),
        "advantages": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=301) * mask,
        "returns": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=302) * mask,
        "values": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=303) * mask,
    }
    arrays = {"__num_turns__": np.array([2, 4, 2, 6, 8, 2, 2, 4]), "tool_call_counts": np.arange(inputs.BATCH)}
    meta = {"global_token_num": tensors["attention_mask"].sum(-1).tolist()}
    return side.get("verl.protocol:DataProto").from_dict(tensors=tensors, non_tensors=arrays, meta_info=meta)


@family("metric_utils.batch", MODULE)
def batch_metrics(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute the metrics of one step."""
    timing = {
        "gen": 2.5,
        "ref": 0.5,
        "values": 0.25,
        "adv": 0.125,
        "update_critic": 1.5,
        "update_actor": 3.0,
        "step": 9.5,
    }
    for critic in (True, False):
        for aborted in (False, True):
            yield (
                f"compute_data_metrics/critic {critic}/aborted {aborted}",
                lambda critic=critic, aborted=aborted: outcome(
                    side.get(f"{MODULE}:compute_data_metrics"), trained_batch(side, aborted=aborted), critic
                ),
            )
    yield "compute_timing_metrics", lambda: side.get(f"{MODULE}:compute_timing_metrics")(trained_batch(side), timing)
    yield (
        "compute_throughout_metrics",
        lambda: side.get(f"{MODULE}:compute_throughout_metrics")(trained_batch(side), timing, n_gpus=3),
    )


@family("metric_utils.validation", MODULE)
def validation(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute best, worst and majority of N."""
    rng = np.random.RandomState(311)
    sources = ["code", "math", "math", "math", "math"]
    prompts = ["p", "q", "q", "q", "r"]
    infos: dict[str, list[Any]] = {
        "acc": rng.rand(5).tolist(),
        "pred": ["1", "2", "1", "1", "3"],
    }
    yield (
        "process_validation_metrics",
        lambda: _plain(side.get(f"{MODULE}:process_validation_metrics")(sources, prompts, infos)),
    )
    yield (
        "process_validation_metrics/seed",
        lambda: _plain(side.get(f"{MODULE}:process_validation_metrics")(sources, prompts, infos, seed=7)),
    )
    yield (
        "bootstrap_metric",
        lambda: side.get(f"{MODULE}:bootstrap_metric")(
            rng.rand(8), subset_size=4, reduce_fns=[np.mean, np.max, np.min], n_bootstrap=100, seed=5
        ),
    )
    votes = [{"vote": pred, "value": value} for pred, value in zip(infos["pred"], infos["acc"], strict=True)]
    yield "calc_maj_val", lambda: side.get(f"{MODULE}:calc_maj_val")(votes, vote_key="vote", val_key="value")


def _plain(value: Any) -> Any:
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


@family("metric.reduce_metrics", "verl.utils.metric.utils")
def reduced(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute means, maxima and minima by the metric's name."""
    yield (
        "",
        lambda: side.get("verl.utils.metric.utils:reduce_metrics")(
            {"loss": [0.5, 0.25, 1.0], "length/max": [3, 9, 4], "length/min": [3, 9, 4], "one": [2.5]}
        ),
    )
