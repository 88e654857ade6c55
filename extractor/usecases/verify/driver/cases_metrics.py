# mypy: disable-error-code="misc"
"""Cases of metrics, and of validation over bootstrap samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from . import inputs
from .cases import Thunk, family, outcome
from .sides import Side

MODULE = "verl.trainer.ppo.metric_utils"


def trained_batch(side: Side, *, aborted: bool = False, rows: int = inputs.BATCH, holes: bool = False) -> Any:
    """Return a batch as it is at the end of a step; `rows` of 0 aborts all."""
    mask = inputs.response_mask(empty=aborted, holes=holes)
    mask[rows:] = 0
    prompt_mask = (torch.arange(inputs.PROMPT)[None, :] >= torch.tensor([0, 3, 1, 2, 0, 5, 4, 6])[:, None]).long()
    tensors = {
        "prompts": torch.ones(inputs.BATCH, inputs.PROMPT, dtype=torch.long),
        "responses": torch.ones(inputs.BATCH, inputs.LENGTH, dtype=torch.long),
        "response_mask": mask,
        "attention_mask": torch.cat([prompt_mask, (mask.flip(1).cumsum(1).flip(1) > 0).long()], dim=1),
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
    for rows in (0, 1, 2):
        yield (
            f"compute_data_metrics/{rows} rows answered",
            lambda rows=rows: outcome(side.get(f"{MODULE}:compute_data_metrics"), trained_batch(side, rows=rows)),
        )
    yield "compute_data_metrics/holes", lambda: side.get(f"{MODULE}:compute_data_metrics")(_alone(side))
    yield (
        "compute_timing_metrics/no tokens",
        lambda: outcome(side.get(f"{MODULE}:compute_timing_metrics"), trained_batch(side, rows=0), timing),
    )
    yield (
        "compute_timing_metrics/few phases",
        lambda: outcome(side.get(f"{MODULE}:compute_timing_metrics"), trained_batch(side), {"gen": 0.5, "other": 2.0}),
    )
    yield "compute_timing_metrics", lambda: side.get(f"{MODULE}:compute_timing_metrics")(trained_batch(side), timing)
    yield (
        "compute_throughout_metrics",
        lambda: side.get(f"{MODULE}:compute_throughout_metrics")(trained_batch(side), timing, n_gpus=3),
    )


def _alone(side: Side) -> Any:
    """Return a batch without what only some trainers count, with observations between the model's tokens."""
    data = trained_batch(side, holes=True)
    data.pop(non_tensor_batch_keys=["__num_turns__", "tool_call_counts"])
    return data


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
    values = rng.rand(8)
    many = ["math"] * 7 + ["code"] * 2
    asked = [*"pppppqq", *"rs"]
    for label, told in (
        ("many", {"acc": rng.rand(9).tolist(), "pred": [*"1211233", *"12"]}),
        ("numbers only", {"reward": rng.rand(9).tolist()}),
        ("some said nothing", {"acc": [1.0, None, 0.5] * 3, "pred": ["1", "2", None] * 3}),
        ("nobody said anything", {"acc": [None] * 9, "note": ["a"] * 9}),
        ("votes that are equal", {"acc": [0.0, 1.0, 0.25] * 3, "pred": ["1"] * 9}),
    ):
        yield (
            f"process_validation_metrics/{label}",
            lambda told=told: _plain(outcome(side.get(f"{MODULE}:process_validation_metrics"), many, asked, told)),
        )

    def expecting() -> Any:
        told = {"acc": [1.0, None, 0.5] * 3}
        counts = {("math", "p"): 9, ("math", "q"): 1, ("code", "r"): 2}
        function = side.get(f"{MODULE}:process_validation_metrics")
        return _plain(
            inputs.call(
                function,
                {"expected_acc_counts": counts},
                data_sources=many,
                sample_uids=asked,
                sample_inputs=asked,
                infos_dict=told,
            )
        )

    yield "process_validation_metrics/expected", lambda: outcome(expecting)
    yield (
        "bootstrap_metric/by default",
        lambda: side.get(f"{MODULE}:bootstrap_metric")(values[:3], 2, [np.mean, np.max]),
    )
    yield (
        "bootstrap_metric",
        lambda: side.get(f"{MODULE}:bootstrap_metric")(
            values, subset_size=4, reduce_fns=[np.mean, np.max, np.min], n_bootstrap=100, seed=5
        ),
    )
    votes = [{"vote": pred, "value": value} for pred, value in zip(infos["pred"], infos["acc"], strict=True)]
    tied = [{"vote": pred, "value": value} for pred, value in (("2", 0.5), ("1", 0.25), ("1", 1.0), ("2", 0.125))]
    yield "calc_maj_val/tie", lambda: side.get(f"{MODULE}:calc_maj_val")(tied, vote_key="vote", val_key="value")
    yield "calc_maj_val", lambda: side.get(f"{MODULE}:calc_maj_val")(votes, vote_key="vote", val_key="value")


def _plain(value: Any) -> Any:
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


@family("metric.reduce_metrics", "verl.utils.metric.utils")
def reduced(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute means, maxima and minima by the metric's name."""
    yield (
        "by name",
        lambda: side.get("verl.utils.metric.utils:reduce_metrics")(
            {"loss": [0.5, 0.25, 1.0], "length/max": [3, 9, 4], "length/min": [3, 9, 4], "one": [2.5], "minmax": [1, 5]}
        ),
    )
    if not hasattr(side.module("verl.utils.metric.utils"), "Metric"):
        return
    cls, kinds = (side.get(f"verl.utils.metric.utils:{name}") for name in ("Metric", "AggregationType"))
    for kind in ("mean", "sum", "min", "max", "none"):

        def gathered(kind: str = kind) -> Any:
            one, other = cls(kind, value=[1.0, 4]), cls(kind)
            other.append(torch.tensor(2.5))
            other.extend([np.float32(7), one])
            one.append(cls(kind, value=-3))
            reduced = side.get("verl.utils.metric.utils:reduce_metrics")({"max": other})
            wrong = [
                outcome(one.append, value) for value in ("text", torch.ones(2), cls("mean" if kind == "sum" else "sum"))
            ]
            ranks = [
                outcome(cls.aggregate_dp, ranks)
                for ranks in ([cls(kind, value=[1.0, 5.0]), cls(kind, value=[2.0, 3.5])], [one, other], [])
            ]
            return one.values, other.values, other.aggregate(), reduced, wrong, ranks, one.init_list().values

        yield f"gathered/{kind}", lambda gathered=gathered: outcome(gathered)
    yield "kinds", lambda: [(item.name, item.value) for item in kinds]
    yield (
        "of a dictionary",
        lambda: {name: item.values for name, item in cls.from_dict({"a": 1, "b": 2.0}, "sum").items()},
    )
