"""Runs of TRL's GRPOTrainer, by its command line, its YAML or a Python script: their settings under verl's names."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from extractor.usecases.fromrun.files import Places
from extractor.usecases.fromrun.meaning import Remark
from extractor.usecases.fromrun.other_libraries import trl_script
from extractor.usecases.fromrun.other_libraries.translation import ROWS, Translated, config_file, overrides_of
from extractor.usecases.fromrun.other_libraries.trl_script import Computed, Program, ScoredBy
from extractor.usecases.fromrun.unknowns import readable, unknowns, with_words
from extractor.values import readers
from extractor.values.configtree.compose import read_mapping, read_yaml
from extractor.values.errors import UsageError

_ACTOR, _ROLLOUT, _MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
_OWN = ("num_generations", "max_completion_length", "reward_funcs")
_NAMES: Mapping[str, str] = {
    "epsilon": f"{_ACTOR}.clip_ratio_low",
    "gradient_checkpointing": f"{_MODEL}.enable_gradient_checkpointing",
    "learning_rate": f"{_ACTOR}.optim.lr",
    "lora_alpha": f"{_MODEL}.lora_alpha",
    "lora_r": f"{_MODEL}.lora_rank",
    "lora_target_modules": f"{_MODEL}.target_modules",
    "max_completion_length": "data.max_response_length",
    "max_grad_norm": f"{_ACTOR}.grad_clip",
    "max_prompt_length": "data.max_prompt_length",
    "model_name_or_path": f"{_MODEL}.path",
    "num_generations": f"{_ROLLOUT}.n",
    "num_iterations": f"{_ACTOR}.ppo_epochs",
    "run_name": "trainer.experiment_name",
    "seed": "data.seed",
    "temperature": f"{_ROLLOUT}.temperature",
    "top_p": f"{_ROLLOUT}.top_p",
    "trust_remote_code": f"{_MODEL}.trust_remote_code",
    "vllm_gpu_memory_utilization": f"{_ROLLOUT}.gpu_memory_utilization",
    "vllm_max_model_length": f"{_ROLLOUT}.max_model_len",
    "vllm_tensor_parallel_size": f"{_ROLLOUT}.tensor_model_parallel_size",
    "warmup_ratio": f"{_ACTOR}.optim.lr_warmup_steps_ratio",
    "warmup_steps": f"{_ACTOR}.optim.lr_warmup_steps",
    "weight_decay": f"{_ACTOR}.optim.weight_decay",
}
# TRL's own, where a run says nothing and verl has another.
_DEFAULTS: Mapping[str, Any] = {
    "beta": 0.0,
    "epsilon": 0.2,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-6,
    "loss_type": "dapo",
    "lr_scheduler_type": "linear",
    "max_completion_length": 256,
    "num_generations": 8,
    "num_train_epochs": 3,
    "per_device_train_batch_size": 8,
    "seed": 42,
    "weight_decay": 0.0,
}
_MEANS = {
    "bnpo": "token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
    "grpo": "seq-mean-token-mean",
}
_SCHEDULES = {
    "constant": "constant",
    "constant_with_warmup": "constant",
    "cosine": "cosine",
    "cosine_with_min_lr": "cosine",
}
_ROWS = "data/train.parquet"
_NO_DUAL_CLIP = 1e6
_READ = {
    *("beta", "delta", "epsilon_high", "eval_steps", "generation_batch_size", "gradient_accumulation_steps"),
    *("importance_sampling_level", "loss_type", "lr_scheduler_type", "max_steps", "num_train_epochs"),
    *("per_device_train_batch_size", "report_to", "save_steps", "save_strategy", "scale_rewards", "top_k", "use_peft"),
    *("use_vllm", "eval_strategy", "steps_per_generation", "adam_beta1", "adam_beta2", "lr_scheduler_kwargs"),
}
_OF_THE_MACHINE = {
    *("attn_implementation", "bf16", "dataloader_num_workers", "deepspeed", "dtype", "fp16", "logging_steps"),
    *("log_completions", "model_init_kwargs", "output_dir", "push_to_hub", "torch_dtype", "vllm_mode"),
    *("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "hub_model_id", "logging_first_step"),
    *("overwrite_output_dir", "gradient_checkpointing_kwargs", "logging_strategy", "vllm_enable_sleep_mode"),
}
_ALL = {*_NAMES, *_READ, *_OF_THE_MACHINE}
_TO_DO = {
    "dataset_name": ROWS,
    "load_in_4bit": "vextract upgrade --with qlora, and local.quantization.load_in_4bit=true",
    "reward_funcs": "not found at the top of a script that is here: hand them to LocalPPOTrainer(reward_fn=[...]) as "
    "they are, or score in custom/reward_manager.py",
    "reward_model_name_or_path": "name it with reward_model.enable=true and reward_model.model.path",
}


def is_config(body: Any) -> bool:
    """Tell whether a config is one of TRL's GRPOTrainer."""
    return isinstance(body, Mapping) and any(name in body for name in _OWN)


def is_launch(words: Sequence[str], places: Places) -> bool:
    """Tell whether a command starts it: `trl grpo ...`, a script that trains with it, or one with its arguments."""
    starts = any(pair == ("trl", "grpo") for pair in itertools.pairwise(words))
    flags = {f"--{name}" for name in _OWN} | {f"--{name.replace('_', '-')}" for name in _OWN}
    if starts or any(word.partition("=")[0] in flags for word in words):
        return True
    _, file, given = trl_script.started(words, places)
    return trl_script.of_file(file, dict(_arguments(given))) is not None


def launched(path: Path, words: Sequence[str], places: Places) -> Translated:
    """Translate a command's arguments, and the config that they name.

    Raises:
        UsageError: the config is not here, or cannot be read.
    """
    script, its_file, given = trl_script.started(words, places)
    stated = dict(_arguments(given))
    program = trl_script.of_file(its_file, stated)
    file = config_file(path, stated.pop("config", None), places)
    try:
        body = {} if file is None else read_mapping(readers.read_text(file))
        if program is None:
            unknown = {"reward_funcs": Computed(f"those of {script}")} if script else {}
            return _of_program({**unknown, **body, **stated}, None)
        own = program.options - _ALL  # the script makes of these what it hands over
        stated = {key: value for key, value in stated.items() if key not in own}
        return _of_program({**program.settings, **body, **stated}, program)
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{file}: cannot be read: {error}", hint="correct it") from None


def of_python(text: str, path: Path) -> Translated | None:
    """Translate the GRPOConfig and the GRPOTrainer of a Python script; None where it has none.

    Raises:
        UsageError: its command line says what the config is.
    """
    found = trl_script.read(text, path, {})
    if found is not None and not found.makes_config:
        raise UsageError(
            f"{path}: its command line says what its GRPOConfig is",
            hint=f"pass a bash script with the command that starts it: accelerate launch {path.name} --...",
        )
    return None if found is None else _of_program(found.settings, found)


def _of_program(stated: Mapping[str, Any], program: Program | None) -> Translated:
    """Return settings as overrides, with what scores: functions of the script, or those that the settings name."""
    weights = stated.get("reward_weights")
    if program is not None and program.rewards:
        scored_by = program.scored_by(weights)
    else:
        scored_by = trl_script.named(stated.get("reward_funcs"), weights)
    return translated(stated, scored_by)


def _arguments(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield `--key value`, `--key=value` and `--flag`."""
    index = 0
    while index < len(words):
        key, equals, text = words[index].partition("=")
        index += 1
        if not key.startswith("--"):
            continue
        values = [text] if equals else []
        while not equals and index < len(words) and not words[index].startswith("--"):
            values.append(words[index])
            index += 1
        known = [_read(value) for value in values]
        yield key[2:].replace("-", "_"), True if not known else known[0] if len(known) == 1 else known


def _read(text: str) -> Any:
    plain, back = with_words(text)
    try:
        return float(plain) if "e" in plain.lower() and plain[:1].isdigit() else back(read_yaml(plain))
    except (ValueError, yaml.YAMLError):
        return back(plain)


def translated(stated: Mapping[str, Any], scored_by: ScoredBy | None = None) -> Translated:
    """Return settings of TRL as overrides of verl's, and what they have that verl has not.

    Args:
        stated: By their names on the command line.
        scored_by: The functions that score; None: they are not known.
    """
    known = {key: _checked(key, value) for key, value in stated.items() if not isinstance(value, Computed)}
    whole = {**_DEFAULTS, **{key: value for key, value in known.items() if value is not None}}
    found = {_NAMES[key]: value for key, value in whole.items() if key in _NAMES and value is not None}
    if not whole.get("use_peft"):
        found = {key: value for key, value in found.items() if ".lora_" not in key and "target_modules" not in key}
    found.update(_loss(whole))
    found.update(_lengths(whole))
    # Whatever its rows are, they are not the toy ones: a project stops where they are not there.
    found.update(dict.fromkeys(("data.train_files", "data.val_files"), str(known.get("dataset_name") or _ROWS)))
    return Translated(overrides_of(found), tuple(_remarks(stated, whole, scored_by is not None)), scored_by)


# What is computed with, and the least that each may be; a run of TRL's ends there as well.
_NUMBERS: Mapping[str, float] = {
    "beta": 0,
    "epsilon": 0,
    "eval_steps": 0,
    "generation_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "max_steps": -1,
    "num_generations": 1,
    "num_train_epochs": 0,
    "per_device_train_batch_size": 1,
    "save_steps": 0,
    "steps_per_generation": 1,
}


def _checked(key: str, value: Any) -> Any:
    """Return the value of a setting.

    Raises:
        UsageError: it has to be a number, and is none, or too small.
    """
    if key not in _NUMBERS or value is None:
        return value
    if isinstance(value, str) and (names := unknowns(value)):
        said = " ".join(f"--set {name if name.isidentifier() else 'VAR'}=..." for name in names)
        raise UsageError(f"not known without running it: {readable(value)} (in {key})", hint=said)
    number = value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            number = float(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not _NUMBERS[key] <= number < float("inf"):
        raise UsageError(
            f"{key} is {value!r}, and has to be a number of at least {_NUMBERS[key]:g}",
            hint="TRL would refuse it as well: correct it",
        )
    return number


def _loss(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is learned: GRPO's advantages and the loss."""
    low, beta = whole["epsilon"], whole["beta"]
    found: dict[str, Any] = {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": whole.get("scale_rewards", True) in (True, "group"),
        "algorithm.use_kl_in_reward": False,
        f"{_ACTOR}.use_kl_loss": beta > 0,
        f"{_ACTOR}.entropy_coeff": 0,
        f"{_ACTOR}.clip_ratio_high": whole.get("epsilon_high", low),
        f"{_ACTOR}.clip_ratio_c": whole.get("delta", _NO_DUAL_CLIP),
        f"{_ACTOR}.loss_agg_mode": _MEANS.get(str(whole["loss_type"]), "token-mean"),
        f"{_ACTOR}.optim.lr_scheduler_type": _SCHEDULES.get(str(whole["lr_scheduler_type"]), "constant"),
    }
    more = whole.get("lr_scheduler_kwargs")
    lowest = more.get("min_lr_rate") if isinstance(more, Mapping) else None
    if whole["lr_scheduler_type"] == "cosine_with_min_lr" and lowest is not None:
        found[f"{_ACTOR}.optim.min_lr_ratio"] = lowest
    if {"adam_beta1", "adam_beta2"} & whole.keys():
        found[f"{_ACTOR}.optim.betas"] = [whole.get("adam_beta1", 0.9), whole.get("adam_beta2", 0.999)]
    if beta > 0:
        found.update({f"{_ACTOR}.kl_loss_coef": beta, f"{_ACTOR}.kl_loss_type": "low_var_kl"})
    mode = "gspo" if whole.get("importance_sampling_level") == "sequence" else str(whole["loss_type"])
    if mode in ("gspo", "cispo", "sapo"):
        found[f"{_ACTOR}.policy_loss.loss_mode"] = mode
    return found


def _lengths(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return batches, of prompts and for one device, and how long the run is."""
    responses = int(whole["per_device_train_batch_size"]) * int(whole["gradient_accumulation_steps"])
    prompts = max(responses // int(whole["num_generations"]), 1)
    steps = int(whole.get("steps_per_generation") or whole["gradient_accumulation_steps"])
    drawn = int(whole.get("generation_batch_size") or int(whole["per_device_train_batch_size"]) * steps)
    loggers = whole.get("report_to", [])
    named = loggers if isinstance(loggers, list) else [loggers]
    found: dict[str, Any] = {
        "data.train_batch_size": max(drawn // int(whole["num_generations"]), prompts),
        f"{_ACTOR}.ppo_mini_batch_size": prompts,
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": int(whole["per_device_train_batch_size"]),
        f"{_ROLLOUT}.name": "vllm" if whole.get("use_vllm") else "hf",
        f"{_ROLLOUT}.top_k": whole.get("top_k") or -1,
        "trainer.total_epochs": max(int(float(whole["num_train_epochs"])), 1),
        "trainer.logger": ["console", *(item for item in map(str, named) if item not in ("none", "all"))],
        "trainer.test_freq": whole.get("eval_steps", -1) if whole.get("eval_strategy", "no") == "steps" else -1,
        "trainer.val_before_train": False,
    }
    if int(whole.get("max_steps", -1)) > 0:
        found["trainer.total_training_steps"] = int(whole["max_steps"])
    if whole.get("save_strategy", "steps") == "steps" and float(whole.get("save_steps", 500)) >= 1:
        found["trainer.save_freq"] = int(whole.get("save_steps", 500))
    return found


def _remarks(stated: Mapping[str, Any], whole: Mapping[str, Any], is_scored: bool) -> Iterator[Remark]:
    for key, value in sorted(stated.items()):
        if is_scored and (key == "reward_funcs" or (key == "reward_weights" and isinstance(value, list))):
            continue
        if key in _TO_DO and value is not False:
            yield Remark(key, str(value), "to do", _TO_DO[key])
        elif isinstance(value, Computed) or (isinstance(value, str) and unknowns(value)):
            what = "dropped" if key in _OF_THE_MACHINE or key == "run_name" else "to do"
            yield Remark(key, readable(str(value)), what, "not known without running the script: set it in config/")
        elif key not in _NAMES and key not in _READ and value not in (None, False):
            what = "dropped" if key in _OF_THE_MACHINE else "not carried over"
            yield Remark(key, value, what, "of TRL alone")
    size = whole["per_device_train_batch_size"] * whole["gradient_accumulation_steps"]
    why = "for one device; TRL has as many for each"
    yield Remark("per_device_train_batch_size * gradient_accumulation_steps", size, "changed", why)
    if str(whole["lr_scheduler_type"]) not in _SCHEDULES:
        why = "verl has constant and cosine: constant"
        yield Remark("lr_scheduler_type", whole["lr_scheduler_type"], "changed", why)
    if str(whole["loss_type"]) not in (*_MEANS, "cispo", "sapo"):
        yield Remark("loss_type", whole["loss_type"], "changed", "verl has none of this name: that of DAPO")
