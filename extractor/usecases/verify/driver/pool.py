"""Make the values that `calls.yaml` names, and those of parameters that it leaves out."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, TensorDict

from . import inputs
from .cases import Each, label_by_value
from .inputs import BATCH, LENGTH, PROMPT
from .sides import NotVendored, Side

PROTOCOL = "verl.protocol:DataProto"
AGG_MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "no-such-mode")
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
LEVELS = ("token", "sequence")
CELLS = torch.arange(8).reshape(4, 2)


def make_step(
    side: Side, *, groups: str = "fours", holes: bool = False, aborted: bool = False, rows: int = BATCH, **meta: Any
) -> Any:
    """Return the batch of a step as it is at its end; rows from `rows` are aborted."""
    mask = inputs.response_mask(empty=aborted, holes=holes)
    mask[rows:] = 0
    attention = torch.cat([inputs.prompt_mask(), (mask.flip(1).cumsum(1).flip(1) > 0).long()], dim=1)
    ids = inputs.integers(BATCH, PROMPT + LENGTH, seed=701, low=3, high=30) * attention
    tensors = {
        "prompts": ids[:, :PROMPT],
        "responses": ids[:, PROMPT:],
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": (attention.cumsum(-1) - 1).clamp(min=0),
        "response_mask": mask,
        "token_level_scores": inputs.rewards(dense=True, mask=mask),
        "token_level_rewards": inputs.rewards(dense=False, mask=mask),
        "old_log_probs": inputs.log_probs(402) - 2,
        "ref_log_prob": inputs.log_probs(403) - 2,
        "advantages": inputs.draw_per_token(301) * mask,
        "returns": inputs.draw_per_token(302) * mask,
        "values": inputs.draw_per_token(303) * mask,
        "reward_baselines": inputs.normal(BATCH, seed=404),
        "sum_pi_squared": inputs.log_probs(405).exp(),
    }
    arrays = {"uid": inputs.groups(groups), "a": inputs.normal(BATCH, seed=406).numpy()}
    if not holes:  # which only some trainers count
        arrays |= {"__num_turns__": np.array([2, 4, 2, 6, 8, 2, 2, 4]), "tool_call_counts": np.arange(BATCH)}
    meta = {"temperature": 0.9, "micro_batch_size": 4, "use_dynamic_bsz": False, "max_token_len": 30, **meta}
    meta["global_token_num"] = attention.sum(-1).tolist()
    return side.get(PROTOCOL).from_dict(tensors=tensors, non_tensors=arrays, meta_info=meta)


def make_batch(side: Side, size: int = BATCH, **meta: Any) -> Any:
    """Return a DataProto with tensors, arrays and meta information."""
    generator = torch.Generator().manual_seed(201)
    return side.get(PROTOCOL).from_dict(
        tensors={
            "ids": torch.randint(0, 50, (size, 6), generator=generator),
            "scores": torch.randn(size, 4, generator=generator),
            "flags": torch.randn(size, generator=generator) > 0,
        },
        non_tensors={
            "uid": np.array([f"row {index % 3}" for index in range(size)], dtype=object),
            "extra": np.array([{"index": index} for index in range(size)], dtype=object),
            "number": np.arange(size) * 1.5,
        },
        meta_info={"temperature": 0.7, **meta},
    )


def make_arrays_only(side: Side, size: int = BATCH) -> Any:
    """Return a DataProto without tensors."""
    numbers = np.arange(size)
    arrays = {"uid": numbers.astype(object), "pairs": np.stack([numbers, numbers + 0.5], axis=1)}
    return side.get(PROTOCOL).from_dict(non_tensors=arrays, meta_info={"more": 1})


def _make_batches(side: Side, size: int = BATCH) -> Each:
    return Each({"": make_batch(side, size), "arrays only": make_arrays_only(side, size)})


def _make_parts(side: Side) -> Each:
    """Return lists of batches to concatenate."""
    found = Each({"two": [make_batch(side), make_batch(side)[2:5]], "one": [make_batch(side)], "nothing": []})
    found["arrays only"] = [make_arrays_only(side), make_arrays_only(side, 2)]
    found["metrics"] = [make_batch(side, metrics=metrics) for metrics in ([{"a": 1.0}], {"a": 2.0})]
    found["no metrics"] = [make_batch(side, metrics=None)] * 2
    found["meta clash"] = [make_batch(side, x=1), make_batch(side, x=2)]
    return found


def _make_other(**tensors: torch.Tensor) -> Callable[[Side], Any]:
    return lambda side: side.get(PROTOCOL).from_dict(tensors=tensors, meta_info={"more": 2})


def _make_steps(side: Side) -> Each:
    changes: list[dict[str, Any]] = [{}, {"aborted": True}, {"holes": True}, *({"rows": rows} for rows in range(3))]
    return Each({str(change): make_step(side, **change) for change in changes})


def _make_step_with_less(side: Side) -> Any:
    data = make_step(side)
    data.pop(["response_mask", "reward_baselines"])
    return data


def _list_estimators(side: Side) -> Each:
    try:
        kinds = side.get("verl.trainer.ppo.core_algos:AdvantageEstimator")
    except NotVendored:  # 0.4.0
        kinds = side.get("verl.trainer.ppo.ray_trainer:AdvantageEstimator")
    return Each({kind.value: kind for kind in kinds})


def make_balanced(side: Side) -> Any:
    """Return a DataProto whose rows have different lengths."""
    mask = torch.cat([torch.ones(BATCH, 3, dtype=torch.long), inputs.response_mask()], dim=1)
    tensors = {"attention_mask": mask, "input_ids": mask * 5, "scores": inputs.normal(BATCH, 2, seed=502)}
    return side.get(PROTOCOL).from_dict(tensors=tensors)


def list_rejections(side: Side) -> tuple[str, ...]:
    """Return the names of rejection methods; none without the module."""
    try:
        helper = side.module("verl.trainer.ppo.rollout_corr_helper")
    except NotVendored:
        return ()
    return tuple(sorted(getattr(helper, "SUPPORTED_ROLLOUT_RS_OPTIONS", (*LEVELS, "geometric"))))


def _make_bypassing(side: Side) -> Each:
    """Return an actor's configuration by kind of loss, weights and rejection."""
    found = Each()
    rejections = (None, *list_rejections(side))
    for kind, sampling, rejection in product(("ppo_clip", "reinforce", "none"), (None, *LEVELS), rejections):
        settings = inputs.actor_settings(global_batch_info={})
        ways = {"loss_type": kind, "rollout_is": sampling, "rollout_rs": rejection}
        settings["policy_loss"]["rollout_correction"] = {**ways, "rollout_rs_threshold": 1.5}
        found[f"{kind}/{sampling}/{rejection}"] = inputs.config(**settings)
    return found


def _make_masks() -> Each:
    mask = inputs.response_mask()
    found = Each({"ragged": mask, "empty row": inputs.response_mask(empty=True), "nothing": torch.zeros_like(mask)})
    found["bool"] = inputs.response_mask(holes=True).bool()
    for count in (1, 2, 3):
        found[f"{count} tokens"] = (torch.arange(BATCH * LENGTH) < count).reshape(BATCH, LENGTH).float()
    return found


def _make_typed(*shape: int, seed: int, scale: float = 1.0, learned: bool = False) -> Each:
    """Return numbers in each dtype."""
    made = {kind: inputs.normal(*shape, seed=seed, scale=scale, dtype=dtype) for kind, dtype in DTYPES.items()}
    return Each({kind: values.requires_grad_(learned) for kind, values in made.items()})


def _alternate(values: torch.Tensor) -> torch.Tensor:
    values[:, ::2] = 0
    return values


_OLD, _DRAWN = inputs.log_probs(31), inputs.draw_per_token(101)
# Sums of powers of two: what is predicted lies exactly on the borders of a range, and beside them.
_STEPS = (torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % 5 - 2) * 0.25
# A case gets copies of these, so that none sees what another changed.
VALUES: dict[str, Any] = {
    "advantages": inputs.draw_per_token(33),
    "apart": Each({str(size): inputs.log_probs(51) + inputs.draw_per_token(52, size) for size in (0.0, 0.3, 30.0)}),
    "cells": CELLS,
    "edges": inputs.edges(33),
    "eos_mask": inputs.response_mask(),
    "expected_counts": {("math", "p"): 9, ("math", "q"): 1, ("code", "r"): 2},
    "four_rows": TensorDict({"a": CELLS}, batch_size=[4]),
    "kept": inputs.log_probs(71),
    "labels": inputs.integers(4, 9, seed=111, high=17),
    "log_prob": (_OLD + inputs.draw_per_token(32, 0.5)).requires_grad_(),
    "log_prob_at_edges": (_OLD + _alternate(inputs.draw_per_token(32, 0.5))).requires_grad_(),
    "logits": _make_typed(4, 9, 17, seed=112, scale=3.0, learned=True),
    "logits_of_tokens": inputs.normal(BATCH, LENGTH, 17, seed=64).requires_grad_(),
    "logprob": inputs.log_probs(51).requires_grad_(),
    "loss_mat": inputs.draw_per_token(41),
    "losses": Each(f32=inputs.draw_per_token(41), bf16=inputs.draw_per_token(41).bfloat16()),
    "mask_with_holes": inputs.response_mask(empty=True, holes=True),
    "masks": _make_masks(),
    "modes": label_by_value(*AGG_MODES),
    "model": inputs.model(),
    "nested_tensor": torch.nested.as_nested_tensor([torch.arange(n) * 1.0 for n in (2, 0, 3)], layout=torch.jagged),
    "numbers": _make_typed(BATCH, LENGTH, seed=101),
    "old_log_prob": _OLD,
    "per_row": Each({str(rows): inputs.normal(rows, seed=1) for rows in (2, 3)}),
    "reductions": [np.mean, np.max, np.min],
    "ref_log_prob": inputs.log_probs(66),
    "response_mask": inputs.response_mask(),
    "returns": inputs.draw_per_token(62),
    "rollout_log_prob": inputs.log_probs(71) + inputs.draw_per_token(72),
    "rows": torch.arange(12).reshape(6, 2),
    "rows_of_logits": _make_typed(9, 17, seed=112, scale=3.0, learned=True),
    "scores": inputs.normal(8, seed=73),
    "seqlen_list": inputs.integers(24, seed=501, low=1, high=200).tolist(),
    "short": inputs.response_mask(empty=True),
    "stepped": _STEPS.clone().requires_grad_(),
    "stepped_back": _STEPS.roll(1, dims=1),
    "strided": torch.nested.nested_tensor([CELLS[0], CELLS[0]]),
    "tensor_dict": TensorDict({"rows": torch.arange(2)}, batch_size=[2]),
    "tensordict": TensorDict({"rows": torch.arange(2)}, batch_size=[2]),
    "tensor_max": _DRAWN + 0.2,
    "tensor_min": _DRAWN - 0.1,
    "told_rows": TensorDict({"rows": torch.arange(2), "a": NonTensorData("x")}, batch_size=[2]),
    "two_rows": TensorDict({"b": CELLS[:2]}, batch_size=[2]),
    "values": inputs.draw_per_token(61),
    "vpreds": (inputs.draw_per_token(61) + inputs.draw_per_token(63, 0.4)).requires_grad_(),
    "x": _DRAWN,
    "zeros": torch.zeros(BATCH, LENGTH),
    **{
        str(dtype).removeprefix("torch."): dtype for dtype in (*DTYPES.values(), torch.float16, torch.int64, torch.bool)
    },
}
# What is made of a side's own classes, or depends on its release.
MADE: dict[str, Callable[[Side], Any]] = {
    "another": _make_other(extra=torch.ones(BATCH, 2)),
    "arrays_only": make_arrays_only,
    "balanced": lambda side: make_balanced(side).batch,
    "batch": make_batch,
    "batches": _make_batches,
    "batches_of_3": lambda side: _make_batches(side, 3),
    "batches_of_sizes": lambda side: Each({str(size): make_batch(side, size) for size in (1, 3, 7, 8)}),
    "bypassing": _make_bypassing,
    "clashing": _make_other(ids=torch.ones(BATCH, 6)),
    "estimators": _list_estimators,
    "padding_batch": lambda side: make_batch(side, 7, _verl_auto_padding=True),
    "parts": _make_parts,
    "rejections": lambda side: label_by_value(None, *list_rejections(side), "none"),
    "shorter": _make_other(extra=torch.ones(3)),
    "step": make_step,
    "step_of_pairs": lambda side: make_step(side, groups="pairs", holes=True),
    "step_with_less": _make_step_with_less,
    "steps": _make_steps,
    "told": lambda side: make_batch(
        side, nested={"a": [1, 2]}, pair=(1, "b"), long=[1, 2, 3, "a"], none=[], no_keys={}
    ),
}
