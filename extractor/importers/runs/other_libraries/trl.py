"""Translate YAML with settings of TRL's GRPOTrainer."""

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from extractor.importers.config.templates import read_table
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run import ROWS, Run, is_nothing, write_overrides
from extractor.values.errors import UsageError

_ACTOR, _ROLLOUT, _MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
_TABLE = read_table("trl")
_RELEASE: str = _TABLE["release"]
_NAMES: Mapping[str, str] = _TABLE["names"]
_DEFAULTS: Mapping[str, Any] = _TABLE["defaults"]
_MEANS: Mapping[str, str] = _TABLE["means"]
_LEAST: Mapping[str, float] = _TABLE["least"]
_OF_THE_MACHINE: Sequence[str] = _TABLE["of_the_machine"]
_OWN = ("num_generations", "max_completion_length", "reward_funcs")
_EVERY = 500  # steps, as transformers has it
_NO_DUAL_CLIP = 1e6
_ROWS = "data/train.parquet"
_TO_DO = {"dataset_name": ROWS, **_TABLE["to_do"]}


def is_config(body: Any) -> bool:
    """Tell whether a config is one of TRL's trainers."""
    return isinstance(body, Mapping) and any(name in body for name in _OWN)


def is_launch(words: Sequence[str]) -> bool:
    """Tell whether a command starts one of TRL's trainers."""
    options = {word.partition("=")[0].replace("-", "_") for word in words if word[:2] == "--"}
    starts = any(one == "trl" and two in ("grpo", "rloo") for one, two in itertools.pairwise(words))
    return starts or not options.isdisjoint(f"__{name}" for name in _OWN)


def refuse(what: object) -> UsageError:
    """Return the error for settings that stand elsewhere than in YAML."""
    return UsageError(
        f"{what}: settings of TRL's trainers are read from YAML alone",
        hint="pass the YAML of its --config, or write the settings as YAML under TRL's names (beta: 0.04)",
    )


def translate_config(path: Path, stated: Mapping[str, Any]) -> Run:
    """Translate GRPOTrainer settings to verl overrides, with remarks.

    Raises:
        UsageError: a setting is no number, is of RLOOTrainer, or asks for several updates of a batch.
    """
    if "rloo" in path.stem.lower() or any(key in stated for key in _TABLE["of_rloo"]):
        hint = "`vextract new myproj --algorithm rloo` makes a project for that; write its settings into config/"
        raise UsageError(f"{path.stem}: of TRL's trainers only GRPOTrainer is read, not RLOOTrainer", hint=hint)
    stated = {_TABLE["earlier"].get(key, key): value for key, value in stated.items()}
    for key in _TABLE["of_several_updates"]:
        if stated.get(key) not in (None, 1):
            hint = "take it out, and write data.train_batch_size, ppo_mini_batch_size or ppo_epochs into config/"
            raise UsageError(f"{key}={stated[key]}: several updates of a batch are not read from TRL's YAML", hint=hint)
    known = {key: _check_value(key, value) for key, value in stated.items() if value is not None}
    lora = _TABLE["lora"] if known.get("use_peft") else {}
    whole = {**_DEFAULTS, **lora, **known}
    if not lora:
        whole = {key: value for key, value in whole.items() if not key.startswith("lora_")}
    found = {_NAMES[key]: value for key, value in whole.items() if key in _NAMES}
    found |= {**_translate_loss(whole), **_translate_lengths(whole)}
    # Whatever its rows are, they are not the toy ones: a project stops where they are not there.
    found.update(dict.fromkeys(("data.train_files", "data.val_files"), str(known.get("dataset_name") or _ROWS)))
    return Run(str(path), write_overrides(found), remarks=(*_remark_on_keys(stated), *_remark_on_values(stated, whole)))


def _check_value(key: str, value: Any) -> Any:
    """Return a setting's value, as a number where required.

    Raises:
        UsageError: it has to be a number, and is none, or too small.
    """
    if key not in _LEAST or value is None:
        return value
    number = value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            number = float(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not _LEAST[key] <= number < float("inf"):
        raise UsageError(
            f"{key} is {value!r}, and has to be a number of at least {_TABLE['least'][key]:g}",
            hint="correct it: steps are numbers, and shares of a run are not read",
        )
    return number


def _translate_loss(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for schedule, advantages, KL and the loss."""
    low, beta = whole["epsilon"], whole["beta"]
    high = whole.get("epsilon_high", low)
    found: dict[str, Any] = {
        "algorithm.adv_estimator": "grpo",
        f"{_ACTOR}.optim.lr_scheduler_type": _TABLE["schedules"].get(str(whole["lr_scheduler_type"]), "constant"),
        f"{_ACTOR}.clip_ratio_high": high,
        f"{_ACTOR}.clip_ratio_c": whole.get("delta", _NO_DUAL_CLIP),
        "algorithm.norm_adv_by_std_in_grpo": whole.get("scale_rewards", True) in (True, "group"),
        "algorithm.use_kl_in_reward": False,
        f"{_ACTOR}.use_kl_loss": beta > 0,
        f"{_ACTOR}.loss_agg_mode": _MEANS.get(str(whole["loss_type"]), "token-mean"),
    }
    if beta > 0:
        found |= {f"{_ACTOR}.kl_loss_coef": beta, f"{_ACTOR}.kl_loss_type": "low_var_kl"}
    mode = "gspo" if whole.get("importance_sampling_level") == "sequence" else str(whole["loss_type"])
    if mode in ("gspo", "cispo", "sapo"):
        found[f"{_ACTOR}.policy_loss.loss_mode"] = mode
    if mode == "cispo":  # TRL's bound is the ratio itself, and there is none from below
        found |= {f"{_ACTOR}.clip_ratio_low": 1.0, f"{_ACTOR}.clip_ratio_high": high - 1.0}
    return found


def _translate_lengths(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for batch sizes, run length and intervals."""
    loggers = whole.get("report_to", [])
    named = loggers if isinstance(loggers, list) else [loggers]
    size = int(whole["per_device_train_batch_size"])
    prompts = max(size * int(whole["gradient_accumulation_steps"]) // int(whole["num_generations"]), 1)
    looks = whole.get("eval_steps") or whole.get("logging_steps") or _EVERY
    found: dict[str, Any] = {
        "data.train_batch_size": prompts,
        f"{_ACTOR}.ppo_mini_batch_size": prompts,
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": size,
        f"{_ROLLOUT}.name": "vllm" if whole.get("use_vllm") else "hf",
        f"{_ROLLOUT}.top_k": whole.get("top_k") or -1,
        "trainer.total_epochs": max(math.ceil(float(whole["num_train_epochs"])), 1),
        "trainer.logger": ["console", *(item for item in map(str, named) if item not in ("none", "all"))],
        "trainer.test_freq": int(looks) if whole.get("eval_strategy") == "steps" else -1,
        "trainer.val_before_train": bool(whole.get("eval_on_start", False)),
    }
    if whole.get("max_steps", -1) > 0:
        found["trainer.total_training_steps"] = int(whole["max_steps"])
    if whole.get("save_strategy", "steps") == "steps":
        found["trainer.save_freq"] = int(whole.get("save_steps", _EVERY))
    if warm := whole.get("warmup_steps", 0):  # transformers 5 takes a share under this name
        found[f"{_ACTOR}.optim.lr_warmup_steps{'_ratio' if warm < 1 else ''}"] = warm
    return found


def _remark_on_keys(stated: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield remarks on settings verl lacks or with unknown values."""
    if all(stated.get(key) is None for key in ("reward_funcs", "reward_model_name_or_path")):
        yield Remark("reward_funcs", None, "to do", "not stated: say in custom/reward_manager.py what scores")
    for key, value in sorted(stated.items()):
        if key in _TO_DO and value not in (None, False):
            yield Remark(key, str(value), "to do", _TO_DO[key])
        elif key not in _NAMES and key not in _TABLE["read"] and not is_nothing(value):
            yield Remark(key, value, "dropped" if key in _OF_THE_MACHINE else "not carried over", "of TRL alone")


def _remark_on_values(stated: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield remarks on settings whose value changes."""
    for key, item in _TABLE["values"].items():
        value = str(whole.get(key))
        if value in item["has_not"] if "has_not" in item else value not in item["has"]:
            yield Remark(key, whole.get(key), item["what"], item["why"])
    if float(whole["num_train_epochs"]) % 1:
        yield Remark("num_train_epochs", whole["num_train_epochs"], "changed", "whole epochs, rounded up")
    if whole.get("use_vllm") and whole.get("vllm_importance_sampling_correction", True):
        why = "vLLM's own probabilities are not corrected for here; algorithm.rollout_correction does it"
        yield Remark("vllm_importance_sampling_correction", True, "changed", why)
    sizes = ("per_device_train_batch_size", "gradient_accumulation_steps")
    size = math.prod(int(whole[key]) for key in sizes)
    yield Remark(" * ".join(sizes), size, "changed", "for one device; TRL has as many for each")
    for key in _TABLE["has_changed"]:
        if key not in stated:
            yield Remark(key, whole[key], "changed", f"not stated: as in TRL {_RELEASE}; other releases differ")
