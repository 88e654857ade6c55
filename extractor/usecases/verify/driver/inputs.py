"""Make the inputs of cases: numbers, batches, configurations, a tokenizer, models, and what `cases.yaml` names."""

import copy
import functools
import re
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from omegaconf import OmegaConf
from tensordict import NonTensorData, TensorDict
from transformers import PreTrainedTokenizerFast

from .sides import NotVendored, Side

BATCH = 8
LENGTH = 12
PROMPT = 7
PROTOCOL = "verl.protocol:DataProto"
CORE = "verl.trainer.ppo.core_algos"
ACTOR_CONFIG = "verl.workers.config.actor"
VOCABULARY = ("<pad>", "<eos>", "<unk>", *string.ascii_lowercase, *string.digits, *" .:+-=<>|?\n")
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
# What a configuration has unless a case changes it: settings.yaml.
SETTINGS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("settings.yaml").read_text(encoding="utf-8"))


class Each(dict[str, Any]):
    """Values of one argument by label; a row has a case of each."""


def label_by_value(*values: Any) -> Each:
    """Return values that are their own labels."""
    return Each({str(value): value for value in values})


def normal(*shape: int, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normally distributed numbers."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * scale).to(dtype)


def draw_per_token(seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normally distributed numbers of shape (BATCH, LENGTH)."""
    return normal(BATCH, LENGTH, seed=seed, scale=scale, dtype=dtype)


def integers(*shape: int, seed: int, low: int = 0, high: int) -> torch.Tensor:
    """Return whole numbers below `high`."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def response_mask(*, empty: bool = False, holes: bool = False) -> torch.Tensor:
    """Return a response mask, shape (BATCH, LENGTH), with varied lengths.

    Args:
        empty: One row has no token at all.
        holes: Some rows have masked tokens in the middle, as the observations of an environment are.
    """
    lengths = torch.tensor([12, 1, 5, 9, 12, 3, 7, 10])
    mask = (torch.arange(LENGTH)[None, :] < lengths[:, None]).long()
    if empty:
        mask[5] = 0
    if holes:
        mask[0, 3:6] = 0
        mask[4, 7] = 0
    return mask


def log_probs(seed: int) -> torch.Tensor:
    """Return log-probabilities of shape (BATCH, LENGTH)."""
    return -draw_per_token(seed).abs() - 0.1


def rewards(*, dense: bool, mask: torch.Tensor) -> torch.Tensor:
    """Return token-level rewards: at each row's last token, or everywhere."""
    if dense:
        return draw_per_token(11) * mask
    values = torch.tensor([1.0, 0.0, 0.25, 1.0, -0.5, 0.125, 0.7, 0.3])
    scores = torch.zeros(BATCH, LENGTH)
    last = (mask.sum(-1) - 1).clamp(min=0)
    scores[torch.arange(BATCH), last] = values
    return scores


def name_groups(kind: str = "fours") -> np.ndarray[Any, Any]:
    """Return prompt names: groups of 4, of 4 "in order", of 2 ("pairs") or 4-3-1 ("singletons")."""
    names = {"fours": "abbbabaa", "in order": "aaaabbbb", "pairs": "abcbdacd", "singletons": "abbbacaa"}[kind]
    return np.array(list(names), dtype=object)


def edges(seed: int) -> torch.Tensor:
    """Return numbers with zeros and one-signed rows, shape (BATCH, LENGTH)."""
    values = draw_per_token(seed)
    values[1], values[2] = values[1].abs(), -values[2].abs()
    values[:, ::3] = 0
    return values


def config(**settings: Any) -> Any:
    """Return an OmegaConf configuration with these values."""
    return OmegaConf.create(settings)


def build_actor_config(side: Side, form: str = "dataclass", *, losing: Any = None, **changes: Any) -> Any:
    """Return the actor's settings for a CPU, as a mapping or as upstream's dataclass with what that knows.

    Args:
        losing: Changes of the section `policy_loss`.
    """
    settings = {**copy.deepcopy(SETTINGS["actor"]), **changes}
    settings["policy_loss"] |= losing or {}
    if form == "mapping":
        return config(**settings)
    cls, kind = (side.get(f"{ACTOR_CONFIG}:{name}") for name in ("FSDPActorConfig", "PolicyLossConfig"))
    settings["policy_loss"] = kind(**_select_fields(kind, settings["policy_loss"]))
    return cls(**_select_fields(cls, settings))


def _select_fields(cls: Any, settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in cls.__dataclass_fields__}


def tokenizer() -> Any:
    """Return a tokenizer with a token per character."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    ids = {token: index for index, token in enumerate(VOCABULARY)}
    raw = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), behavior="isolated")
    raw.decoder = decoders.Fuse()
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    made = PreTrainedTokenizerFast(tokenizer_object=raw, padding_side="left", **names)
    made.chat_template = TEMPLATE
    return made


def model(kind: str = "Qwen2ForCausalLM", **changes: Any) -> Any:
    """Return a small random float32 Qwen2; reset the random seed."""
    made = copy.deepcopy(_build_model(kind, tuple(sorted(changes.items()))))
    torch.manual_seed(7)
    return made


@functools.cache
def _build_model(kind: str, changes: tuple[tuple[str, Any], ...]) -> Any:
    import transformers

    settings = {**SETTINGS["model"], "vocab_size": len(VOCABULARY), **dict(changes)}
    torch.manual_seed(7)
    config = transformers.Qwen2Config(**settings)
    built = getattr(transformers, kind)(config).float()
    if hasattr(built, "dropout"):
        built.dropout = torch.nn.Identity()
    return built


def make_step(
    side: Side,
    *,
    groups: str = "fours",
    holes: bool = False,
    aborted: bool = False,
    rows: int = BATCH,
    without: Sequence[str] = (),
    broken: str = "",
    weights: bool = False,
    rollout: bool = False,
    **meta: Any,
) -> Any:
    """Return the batch of a step as it is at its end.

    Args:
        holes: Rows have observations.
        aborted: One row has no response.
        rows: Those from this one on have none.
        without: Columns to leave out.
        broken: A column with a number that is not finite.
        weights, rollout: It has a rollout's weights, or its log-probabilities.
    """
    mask = response_mask(empty=aborted, holes=holes)
    mask[rows:] = 0
    prompt_mask = torch.arange(PROMPT)[None, :] >= torch.tensor([0, 3, 1, 2, 0, 5, 4, 6])[:, None]  # padded at the left
    attention = torch.cat([prompt_mask.long(), (mask.flip(1).cumsum(1).flip(1) > 0).long()], dim=1)
    ids = integers(BATCH, PROMPT + LENGTH, seed=701, low=3, high=30) * attention
    tensors = {
        "prompts": ids[:, :PROMPT],
        "responses": ids[:, PROMPT:],
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": (attention.cumsum(-1) - 1).clamp(min=0),
        "response_mask": mask,
        "token_level_scores": rewards(dense=True, mask=mask),
        "token_level_rewards": rewards(dense=False, mask=mask),
        "old_log_probs": log_probs(402) - 2,
        "ref_log_prob": log_probs(403) - 2,
        "advantages": draw_per_token(301) * mask,
        "returns": draw_per_token(302) * mask,
        "values": draw_per_token(303) * mask,
        "reward_baselines": normal(BATCH, seed=404),
        "sum_pi_squared": log_probs(405).exp(),
    }
    arrays = {"uid": name_groups(groups), "a": normal(BATCH, seed=406).numpy()}
    if not holes:  # which only some trainers count
        arrays |= {"__num_turns__": np.array([2, 4, 2, 6, 8, 2, 2, 4]), "tool_call_counts": np.arange(BATCH)}
    meta = {"temperature": 0.9, "micro_batch_size": 4, "use_dynamic_bsz": False, "max_token_len": 30, **meta}
    meta["global_token_num"] = attention.sum(-1).tolist()
    if broken:
        tensors[broken][0, 0] = float("inf")
    if weights:
        tensors["rollout_is_weights"] = normal(BATCH, LENGTH, seed=707).exp()
    if rollout:
        tensors["rollout_log_probs"] = tensors["old_log_probs"] + 0.1
    tensors = {name: value for name, value in tensors.items() if name not in without}
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


def make_balanced(side: Side) -> Any:
    """Return a DataProto whose rows have different lengths."""
    mask = torch.cat([torch.ones(BATCH, 3, dtype=torch.long), response_mask()], dim=1)
    tensors = {"attention_mask": mask, "input_ids": mask * 5, "scores": normal(BATCH, 2, seed=502)}
    return side.get(PROTOCOL).from_dict(tensors=tensors)


def _list_kinds(side: Side) -> Each:
    try:
        kinds = side.get(f"{CORE}:AdvantageEstimator")
    except NotVendored:  # 0.4.0
        kinds = side.get("verl.trainer.ppo.ray_trainer:AdvantageEstimator")
    return Each({kind.value: kind for kind in kinds})


def find_estimators(side: Side) -> dict[str, Any]:
    """Return the registered estimators by name; without a registry, find them by theirs."""
    core = side.module(CORE)
    registry = getattr(core, "ADV_ESTIMATOR_REGISTRY", None)
    if registry is None:
        return {name: getattr(core, name) for name in dir(core) if re.match("compute_.*advantage", name)}
    return {str(getattr(name, "value", name)): registry[name] for name in sorted(registry, key=str)}


def _list_registered(side: Side, module: str, registry: str, *more: Any, known: Sequence[str] = ()) -> Each:
    """Return the names in a registry, or those known where a release has none, after others."""
    names = getattr(side.module(module), registry, known)
    return label_by_value(*more, *sorted({*names} - {*more}))


def _list_rejections(side: Side, *more: str) -> Each:
    """Return the names of rejection methods; none without the module."""
    known, name = ("token", "sequence", "geometric"), "SUPPORTED_ROLLOUT_RS_OPTIONS"
    try:
        return _list_registered(side, "verl.trainer.ppo.rollout_corr_helper", name, None, *more, known=known)
    except NotVendored:
        return label_by_value(None)


def _list_managers(side: Side) -> Each:
    """Return the names of the reward managers."""
    side.module("verl.workers.reward_manager")
    return _list_registered(side, "verl.workers.reward_manager.registry", "REWARD_MANAGER_REGISTRY")


def _make_masks() -> Each:
    mask = response_mask()
    masks = Each({"ragged": mask, "empty row": response_mask(empty=True), "nothing": torch.zeros_like(mask)})
    masks["bool"] = response_mask(holes=True).bool()
    for count in (1, 2, 3):
        masks[f"{count} tokens"] = (torch.arange(BATCH * LENGTH) < count).reshape(BATCH, LENGTH).float()
    return masks


def _make_typed(*shape: int, seed: int, scale: float = 1.0, learned: bool = False) -> Each:
    """Return numbers in each dtype."""
    dtypes = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
    made = {kind: normal(*shape, seed=seed, scale=scale, dtype=dtype) for kind, dtype in dtypes.items()}
    return Each({kind: values.requires_grad_(learned) for kind, values in made.items()})


def _move(size: float, *, kept: bool = False) -> torch.Tensor:
    """Return log-probabilities away from the old ones; every other token as it was where some are kept."""
    apart = draw_per_token(32, size)
    if kept:
        apart[:, ::2] = 0
    return (_OLD + apart).requires_grad_()


_OLD, _DRAWN, _MASK = log_probs(31), draw_per_token(101), response_mask()
_EMPTY, _HOLES, _CELLS = response_mask(empty=True), response_mask(holes=True), torch.arange(8).reshape(4, 2)
_OUTCOME, _PROMPTS = rewards(dense=False, mask=_MASK), torch.ones(BATCH, PROMPT, dtype=torch.long)
# Sums of powers of two: what is predicted lies exactly on the borders of a range, and beside them.
_STEPS = (torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % 5 - 2) * 0.25
_MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "no-such-mode")
# A case gets copies of these, so that none sees what another changed.
VALUES: dict[str, Any] = {
    "advantages": draw_per_token(33),
    "apart": Each({str(size): log_probs(51) + draw_per_token(52, size) for size in (0.0, 0.3, 30.0)}),
    "batch_of_components": {"prompts": _PROMPTS, "attention_mask": torch.cat([_PROMPTS, _MASK], dim=1)},
    "cells": _CELLS,
    "cliprange": 0.2,
    "components": {name: normal(BATCH, seed=seed).numpy() for name, seed in (("a", 17), ("b", 18))},
    "dense": rewards(dense=True, mask=_MASK),
    "dense_with_holes": rewards(dense=True, mask=_HOLES),
    "double": draw_per_token(33).double(),
    "edges": edges(33),
    "eos_mask": _MASK,
    "expected_counts": {("math", "p"): 9, ("math", "q"): 1, ("code", "r"): 2},
    "far": _move(30.0),
    "first_tokens": _MASK * (torch.arange(LENGTH) < 1),
    "four_rows": TensorDict({"a": _CELLS}, batch_size=[4]),
    "gamma": 0.97,
    "index": name_groups(),
    "int": int,
    "kept": log_probs(71),
    "labels": integers(4, 9, seed=111, high=17),
    "lam": 0.9,
    "log_prob": _move(0.5),
    "log_prob_at_edges": _move(2.0, kept=True),
    "logits": _make_typed(4, 9, 17, seed=112, scale=3.0, learned=True),
    "logits_of_tokens": normal(BATCH, LENGTH, 17, seed=64).requires_grad_(),
    "logprob": log_probs(51).requires_grad_(),
    "loss_agg_mode": _MODES[0],
    "loss_mat": draw_per_token(41),
    "loss_mats": Each(f32=draw_per_token(41), bf16=draw_per_token(41).bfloat16()),
    "losses_only": -edges(33).abs(),
    "mask_with_holes": response_mask(empty=True, holes=True),
    "masks": _make_masks(),
    "modes": label_by_value(*_MODES),
    "model": model(),
    "near": _move(0.3),
    "nested_tensor": torch.nested.as_nested_tensor([torch.arange(n) * 1.0 for n in (2, 0, 3)], layout=torch.jagged),
    "num_examine": 1,
    "numbers": _make_typed(BATCH, LENGTH, seed=101),
    "old_log_prob": _OLD,
    "old_log_probs": log_probs(14),
    "ones": torch.ones(BATCH, LENGTH) * _MASK,
    "outcome_double": _OUTCOME.double(),
    "outcome_of_empty": rewards(dense=False, mask=_EMPTY),
    "pairs": name_groups("pairs"),
    "per_row": Each({str(rows): normal(rows, seed=1) for rows in (2, 3)}),
    "reductions": [np.mean, np.max, np.min],
    "ref_log_prob": log_probs(66),
    "response_mask": _MASK,
    "response_with_holes": _HOLES,
    "returns": draw_per_token(62),
    "reward_baselines": normal(BATCH, seed=13),
    "rollout_log_prob": log_probs(71) + draw_per_token(72),
    "rollout_weights": draw_per_token(24).exp(),
    "rows": torch.arange(12).reshape(6, 2),
    "rows_of_logits": _make_typed(9, 17, seed=112, scale=3.0, learned=True),
    "scores": normal(8, seed=73),
    "seqlen_list": integers(24, seed=501, low=1, high=200).tolist(),
    "short": _EMPTY,
    "singletons": name_groups("singletons"),
    "stepped": _STEPS.clone().requires_grad_(),
    "stepped_back": _STEPS.roll(1, dims=1),
    "strided": torch.nested.nested_tensor([_CELLS[0], _CELLS[0]]),
    "sum_pi_squared": log_probs(15).exp(),
    "tensor_dict": TensorDict({"rows": torch.arange(2)}, batch_size=[2]),
    "tensordict": TensorDict({"rows": torch.arange(2)}, batch_size=[2]),
    "tensor_max": _DRAWN + 0.2,
    "tensor_min": _DRAWN - 0.1,
    "token_level_rewards": _OUTCOME,
    "told_rows": TensorDict({"rows": torch.arange(2), "a": NonTensorData("x")}, batch_size=[2]),
    "two_rows": TensorDict({"b": _CELLS[:2]}, batch_size=[2]),
    "values": draw_per_token(61),
    "vpreds": (draw_per_token(61) + draw_per_token(63, 0.4)).requires_grad_(),
    "x": _DRAWN,
    "zeros": torch.zeros(BATCH, LENGTH),
    **{name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64", "int64", "bool")},
}
# Choices that depend on a release: "$name" in the table.
CHOICES: dict[str, Callable[[Side], dict[str, Any]]] = {
    "distillation_losses": lambda side: _list_registered(
        side, "verl.trainer.distillation.losses", "DISTILLATION_LOSS_REGISTRY"
    ),
    "estimators": lambda side: label_by_value(*find_estimators(side)),
    "kinds_of_estimators": _list_kinds,
    "losses": lambda side: _list_registered(side, CORE, "POLICY_LOSS_REGISTRY"),
    # Before 0.6 "vanilla" stands outside of the registry.
    "loss_modes": lambda side: _list_registered(side, CORE, "POLICY_LOSS_REGISTRY", "vanilla"),
    "managers": _list_managers,
    # Others catch a mistake of a scorer.
    "managers_that_raise": lambda side: label_by_value(*sorted({*_list_managers(side)} - {"prime"})),
    "rejections": _list_rejections,
    "rejections_and_none": lambda side: _list_rejections(side, "none"),
}
# What is made with a side's own classes, as by functions called `make_NAME`: "$name", or {$name: {argument: value}}.
MADE: dict[str, Callable[..., Any]] = {
    "balanced_rows": lambda side: make_balanced(side).batch,
    "folded": lambda side: side.get("verl.protocol:fold_batch_dim")(make_batch(side), 4),
    "get": lambda side, of: side.get(of),
    "new": lambda side, of, **settings: side.get(of)(**settings),
    "other": lambda side, **shapes: side.get(PROTOCOL).from_dict(
        tensors={name: torch.ones(*shape) for name, shape in shapes.items()}, meta_info={"more": 2}
    ),
    "settings": lambda side, **settings: settings,
    "sgd": lambda side: torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1),
    "tensordict_of_batch": lambda side: make_batch(side).to_tensordict(),
    "weights": lambda side: [torch.nn.Parameter(torch.arange(4.0))],
}
