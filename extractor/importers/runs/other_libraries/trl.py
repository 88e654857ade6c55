"""Translate YAML with settings of TRL's GRPOTrainer."""

import contextlib
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from extractor.importers.config.templates import read_table
from extractor.importers.runs.run import ROWS, TranslatedRun, is_nothing, write_overrides
from extractor.importers.runs.run_folders import RunFolders
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values import readers
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
_TRAINS = re.compile(r"\b(?:GRPO|RLOO)Trainer\(")
_NO_DUAL_CLIP = 1e6
_ROWS = "data/train.parquet"
_TO_DO = {"dataset_name": ROWS, **_TABLE["to_do"]}


def is_config(body: Any) -> bool:
    """Tell whether a config is one of TRL's trainers."""
    return isinstance(body, Mapping) and any(name in body for name in _OWN)


def is_training(text: str) -> bool:
    """Tell whether a program makes one of TRL's trainers."""
    return _TRAINS.search(text) is not None and re.search(r"^\s*(?:from|import) verl\b", text, re.MULTILINE) is None


def is_launch(words: Sequence[str], places: RunFolders) -> bool:
    """Tell whether a command starts one of TRL's trainers."""
    if any(one == "trl" and two in ("grpo", "rloo") for one, two in itertools.pairwise(words)):
        return True
    if any(word.partition("=")[0].replace("-", "_").removeprefix("__") in _OWN for word in words if word[:2] == "--"):
        return True
    file = next(filter(None, (places.find(word) for word in words if word.endswith(".py"))), None)
    with contextlib.suppress(OSError, UsageError):
        return file is not None and is_training(readers.read_text(file))
    return False


def refuse(what: object) -> UsageError:
    """Return the error for settings that stand elsewhere than in YAML."""
    return UsageError(
        f"{what}: settings of TRL's trainers are read from YAML alone",
        hint="pass the YAML of its --config, or write the settings as YAML under TRL's names (beta: 0.04)",
    )


def translate_config(stated: Mapping[str, Any], name: str) -> TranslatedRun:
    """Translate GRPOTrainer settings to verl overrides, with remarks.

    Args:
        stated: By TRL's names.
        name: Of the config's file.

    Raises:
        UsageError: a setting is no number, or of RLOOTrainer.
    """
    if "rloo" in name.lower() or any(key in stated for key in _TABLE["of_rloo"]):
        hint = "`vextract new myproj --algorithm rloo` makes a project for that; write its settings into config/"
        raise UsageError(f"{name}: of TRL's trainers only GRPOTrainer is read, not RLOOTrainer", hint=hint)
    stated = {_TABLE["earlier"].get(key, key): value for key, value in stated.items()}
    known = {key: _check_value(key, value) for key, value in stated.items() if value is not None}
    lora = _TABLE["lora"] if known.get("use_peft") else {}
    whole = {**_DEFAULTS, **lora, **known}
    if not lora:
        whole = {key: value for key, value in whole.items() if not key.startswith("lora_")}
    batches = _Batches(whole)
    found = {_NAMES[key]: value for key, value in whole.items() if key in _NAMES}
    found |= {**_translate_loss(whole), **_translate_lengths(whole, batches)}
    # Whatever its rows are, they are not the toy ones: a project stops where they are not there.
    found.update(dict.fromkeys(("data.train_files", "data.val_files"), str(known.get("dataset_name") or _ROWS)))
    remarks = (
        *_remark_on_keys(stated),
        *_remark_on_values(stated, whole),
        *_remark_on_batches(known, batches),
    )
    return TranslatedRun(write_overrides(found), remarks)


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
            hint="TRL would refuse it as well: correct it",
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


class _Batches:
    """The sizes of a run's batches.

    Attributes:
        of_device: Responses in a pass.
        prompts: Of an optimizer step.
        drawn: Prompts whose responses are written at a time.
        updates: Optimizer steps of TRL's in a step of verl's, which is all that is done with them.
    """

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self.of_device, generations = int(whole["per_device_train_batch_size"]), int(whole["num_generations"])
        accumulated = int(whole["gradient_accumulation_steps"])
        steps = int(whole.get("steps_per_generation") or accumulated)
        written = int(whole.get("generation_batch_size") or self.of_device * steps)
        self.prompts = max(self.of_device * accumulated // generations, 1)
        self.drawn = max(written // generations, self.prompts)
        self.updates = math.ceil(self.drawn / self.prompts) * int(whole.get("num_iterations", 1))

    def steps(self, count: float) -> int:
        """Convert a count of TRL's optimizer steps to verl steps."""
        return max(math.ceil(count / self.updates), 1)


def _translate_lengths(whole: Mapping[str, Any], batches: _Batches) -> dict[str, Any]:
    """Return settings for batch sizes, run length and intervals."""
    loggers = whole.get("report_to", [])
    named = loggers if isinstance(loggers, list) else [loggers]
    last, epochs = int(whole.get("max_steps", -1)), float(whole["num_train_epochs"])

    def every(interval: float) -> int:  # below 1 it is a share of the run
        steps = interval * last if interval < 1 else interval
        return batches.steps(steps) if steps > 0 else -1

    looks = whole.get("eval_steps") or whole.get("logging_steps") or 500  # as transformers has it
    found: dict[str, Any] = {
        "data.train_batch_size": batches.drawn,
        f"{_ACTOR}.ppo_mini_batch_size": batches.prompts,
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": batches.of_device,
        f"{_ROLLOUT}.name": "vllm" if whole.get("use_vllm") else "hf",
        f"{_ROLLOUT}.top_k": whole.get("top_k") or -1,
        "trainer.total_epochs": max(math.ceil(epochs), 1),
        "trainer.logger": ["console", *(item for item in map(str, named) if item not in ("none", "all"))],
        "trainer.test_freq": every(float(looks)) if whole.get("eval_strategy") == "steps" else -1,
        "trainer.val_before_train": bool(whole.get("eval_on_start", False)),
    }
    if last > 0:
        found["trainer.total_training_steps"] = batches.steps(last)
    if whole.get("save_strategy", "steps") == "steps":
        found["trainer.save_freq"] = every(float(whole.get("save_steps", 500)))
    warm = whole.get("warmup_steps", 0)
    if 0 < warm < 1:  # transformers 5 takes a share under this name
        found[f"{_ACTOR}.optim.lr_warmup_steps_ratio"] = warm
    elif warm:
        found[f"{_ACTOR}.optim.lr_warmup_steps"] = batches.steps(warm)
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
    for key in _TABLE["has_changed"]:
        if key not in stated:
            yield Remark(key, whole[key], "changed", f"not stated: as in TRL {_RELEASE}; other releases differ")


def _remark_on_batches(known: Mapping[str, Any], batches: _Batches) -> Iterator[Remark]:
    """Yield remarks on batch sizes and steps that are counted differently."""
    sizes = ("per_device_train_batch_size", "gradient_accumulation_steps")
    size = math.prod(known.get(key, _DEFAULTS[key]) for key in sizes)
    yield Remark(" * ".join(sizes), size, "changed", "for one device; TRL has as many for each")
    if batches.updates > 1:
        for key in ("max_steps", "eval_steps", "save_steps", "warmup_steps"):
            if (value := known.get(key, 0)) >= 1:
                why = f"{batches.steps(value)} steps here, each of {batches.updates} of TRL's"
                yield Remark(key, value, "changed", why)
