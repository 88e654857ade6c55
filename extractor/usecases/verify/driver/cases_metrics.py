"""Cases of metrics, and of validation over bootstrap samples."""

from itertools import product
from typing import Any

import numpy as np
import torch

from . import inputs
from .cases import Call, Cases, family, outcome
from .sides import Side

MODULE = "verl.trainer.ppo.metric_utils"
TIMING = {"gen": 2.5, "ref": 0.5, "values": 0.25, "adv": 0.125, "update_critic": 1.5, "update_actor": 3.0, "step": 9.5}


def trained_batch(side: Side, *, aborted: bool = False, rows: int = inputs.BATCH, holes: bool = False) -> Any:
    """Return a finished step's batch; rows from `rows` are aborted."""
    mask = inputs.response_mask(empty=aborted, holes=holes)
    mask[rows:] = 0
    tensors = {
        "prompts": torch.ones(inputs.BATCH, inputs.PROMPT, dtype=torch.long),
        "responses": torch.ones(inputs.BATCH, inputs.LENGTH, dtype=torch.long),
        "response_mask": mask,
        "attention_mask": torch.cat([inputs.prompt_mask(), (mask.flip(1).cumsum(1).flip(1) > 0).long()], dim=1),
        "token_level_scores": inputs.rewards(dense=True, mask=mask),
        "token_level_rewards": inputs.rewards(dense=False, mask=mask),
        "advantages": inputs.draw_per_token(301) * mask,
        "returns": inputs.draw_per_token(302) * mask,
        "values": inputs.draw_per_token(303) * mask,
    }
    arrays = {"__num_turns__": np.array([2, 4, 2, 6, 8, 2, 2, 4]), "tool_call_counts": np.arange(inputs.BATCH)}
    meta = {"global_token_num": tensors["attention_mask"].sum(-1).tolist()}
    # What only some trainers count is not in a batch with observations between the model's tokens.
    return side.get("verl.protocol:DataProto").from_dict(
        tensors=tensors, non_tensors={} if holes else arrays, meta_info=meta
    )


@family("metric_utils.batch", MODULE)
def batch_metrics(call: Call) -> Cases:
    """Compute the metrics of one step."""

    def of_batch(name: str, *arguments: Any, changes: dict[str, Any] | None = None, **options: Any) -> Any:
        return lambda: call(name, trained_batch(call.side, **(changes or {})), *arguments, **options)()

    for critic, aborted in product((True, False), (False, True)):
        case = of_batch("compute_data_metrics", critic, changes={"aborted": aborted})
        yield f"compute_data_metrics/critic {critic}/aborted {aborted}", case
    for rows in (0, 1, 2):
        yield f"compute_data_metrics/{rows} rows answered", of_batch("compute_data_metrics", changes={"rows": rows})
    yield "compute_data_metrics/holes", of_batch("compute_data_metrics", changes={"holes": True})
    yield "compute_timing_metrics", of_batch("compute_timing_metrics", TIMING)
    yield "compute_timing_metrics/few phases", of_batch("compute_timing_metrics", {"gen": 0.5, "other": 2.0})
    yield "compute_throughout_metrics", of_batch("compute_throughout_metrics", TIMING, n_gpus=3)


@family("metric_utils.validation", MODULE)
def validation(call: Call) -> Cases:
    """Compute best, worst and majority of N."""
    rng = np.random.RandomState(311)

    def numbers(count: int) -> list[float]:
        found: list[float] = rng.rand(count).tolist()
        return found

    of_validation = ["code", *["math"] * 4], ["p", "q", "q", "q", "r"]
    infos: dict[str, list[Any]] = {"acc": numbers(5), "pred": ["1", "2", "1", "1", "3"]}
    values, many, asked = np.array(numbers(8)), ["math"] * 7 + ["code"] * 2, list("pppppqqrs")

    def processed(sources: list[str], prompts: list[str], told: dict[str, list[Any]], **options: Any) -> Any:
        return lambda: _unpack(call("process_validation_metrics", sources, prompts, told, **options)())

    yield "process_validation_metrics", processed(*of_validation, infos)
    said_nothing = {"acc": [1.0, None, 0.5] * 3}
    for label, told in {
        "many": {"acc": numbers(9), "pred": list("121123312")},
        "numbers only": {"reward": numbers(9)},
        "some said nothing": {**said_nothing, "pred": ["1", "2", None] * 3},
        "nobody said anything": {"acc": [None] * 9, "note": ["a"] * 9},
        "votes that are equal": {"acc": [0.0, 1.0, 0.25] * 3, "pred": ["1"] * 9},
    }.items():
        yield f"process_validation_metrics/{label}", processed(many, asked, told)

    def expecting() -> Any:
        available = {
            "expected_acc_counts": {("math", "p"): 9, ("math", "q"): 1, ("code", "r"): 2},
            "data_sources": many,
            "sample_uids": asked,
            "sample_inputs": asked,
            "infos_dict": said_nothing,
        }
        return _unpack(outcome(inputs.call, call.get("process_validation_metrics"), available))

    yield "process_validation_metrics/expected", expecting
    few = {"subset_size": 4, "reduce_fns": [np.mean, np.max, np.min], "n_bootstrap": 100, "seed": 5}
    yield "bootstrap_metric", call("bootstrap_metric", values, **few)
    votes, tied = zip(infos["pred"], infos["acc"], strict=True), zip("2112", (0.5, 0.25, 1.0, 0.125), strict=True)
    for label, pairs in (("calc_maj_val", votes), ("calc_maj_val/tie", tied)):
        told = [{"vote": vote, "value": value} for vote, value in pairs]
        yield label, call("calc_maj_val", told, vote_key="vote", val_key="value")


def _unpack(value: Any) -> Any:
    return {key: _unpack(item) for key, item in value.items()} if isinstance(value, dict) else value


@family("metric.reduce_metrics", "verl.utils.metric.utils")
def reduced(call: Call) -> Cases:
    """Compute means, maxima and minima by the metric's name."""
    lengths = {"length/max": [3, 9, 4], "length/min": [3, 9, 4]}
    yield "by name", call("reduce_metrics", {"loss": [0.5, 0.25, 1.0], **lengths, "one": [2.5], "minmax": [1, 5]})
    if not hasattr(call.side.module(call.module), "Metric"):
        return
    cls = call.get("Metric")

    def gathered(kind: str) -> Any:
        one, other = cls(kind, value=[1.0, 4]), cls(kind)
        other.append(torch.tensor(2.5))
        other.extend([np.float32(7), one])
        one.append(cls(kind, value=-3))
        mean = call.get("reduce_metrics")({"max": other})
        another = cls("mean" if kind == "sum" else "sum")
        wrong = [outcome(one.append, value) for value in ("text", torch.ones(2), another)]
        alike = [cls(kind, value=[1.0, 5.0]), cls(kind, value=[2.0, 3.5])]
        ranks = [outcome(cls.aggregate_dp, ranks) for ranks in (alike, [one, other], [])]
        return one.values, other.values, other.aggregate(), mean, wrong, ranks, one.init_list().values

    for kind in ("mean", "sum", "min", "max", "none"):
        yield f"gathered/{kind}", call(gathered, kind)
