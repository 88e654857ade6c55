"""Runs of TRL's GRPOTrainer, by its command line, its YAML or a Python script: their settings under verl's names."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from extractor.usecases.fromrun.files import Places
from extractor.usecases.fromrun.meaning import Remark
from extractor.usecases.fromrun.translation import ROWS, Translated, config_file, overrides_of
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
_SCHEDULES = {"constant": "constant", "constant_with_warmup": "constant", "cosine": "cosine"}
_ROWS = "data/train.parquet"
_NO_DUAL_CLIP = 1e6
_READ = {
    *("beta", "delta", "epsilon_high", "eval_steps", "generation_batch_size", "gradient_accumulation_steps"),
    *("importance_sampling_level", "loss_type", "lr_scheduler_type", "max_steps", "num_train_epochs"),
    *("per_device_train_batch_size", "report_to", "save_steps", "save_strategy", "scale_rewards", "top_k", "use_peft"),
    *("use_vllm", "eval_strategy"),
}
_OF_THE_MACHINE = {
    *("attn_implementation", "bf16", "dataloader_num_workers", "deepspeed", "dtype", "fp16", "logging_steps"),
    *("log_completions", "model_init_kwargs", "output_dir", "push_to_hub", "torch_dtype", "vllm_mode"),
    *("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "hub_model_id", "logging_first_step"),
    *("overwrite_output_dir", "gradient_checkpointing_kwargs", "logging_strategy", "vllm_enable_sleep_mode"),
}
_TO_DO = {
    "dataset_name": ROWS,
    "load_in_4bit": "vextract upgrade --with qlora, and local.quantization.load_in_4bit=true",
    "reward_funcs": "TRL's functions score lists of completions: write compute_score(data_source, solution_str, "
    "ground_truth, extra_info), and name its file with custom_reward_function.path",
    "reward_model_name_or_path": "name it with reward_model.enable=true and reward_model.model.path",
}


def is_config(body: Any) -> bool:
    """Tell whether a config is one of TRL's GRPOTrainer."""
    return isinstance(body, Mapping) and any(name in body for name in _OWN)


def is_launch(words: Sequence[str]) -> bool:
    """Tell whether a command starts it: `trl grpo ...`, or a Python script with its arguments."""
    starts = any(pair == ("trl", "grpo") for pair in itertools.pairwise(words))
    return starts or any(word.partition("=")[0] in {f"--{name}" for name in _OWN} for word in words)


def launched(path: Path, words: Sequence[str], places: Places) -> Translated:
    """Translate a command's arguments, and the config that they name.

    Raises:
        UsageError: the config is not here, or cannot be read.
    """
    stated = dict(_arguments(words))
    named = stated.pop("config", None)
    file = config_file(path, named, places)
    if file is None:
        return translated(stated)
    try:
        return translated({**read_mapping(readers.read_text(file)), **stated})
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{file}: cannot be read: {error}", hint="correct it") from None


def of_python(text: str) -> Translated | None:
    """Translate the GRPOConfig and the GRPOTrainer of a Python script; None where it has none."""
    tree = readers.python(text)
    constants = {
        item.targets[0].id: item.value
        for item in tree.body
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    stated: dict[str, Any] = {}
    for call in calls:
        name = ast.unparse(call.func).rpartition(".")[2]
        if name in _CALLS:
            for keyword in call.keywords:
                said = _CALLS[name].get(str(keyword.arg), keyword.arg if name == "GRPOConfig" else None)
                if said is not None:
                    stated[said] = _value(keyword.value, constants)
    if not any(ast.unparse(call.func).endswith("GRPOConfig") for call in calls):
        return None
    if any(key.startswith("lora_") for key in stated):
        stated["use_peft"] = True
    return translated(stated)


# What of a call's arguments is a setting, by what it is called on the command line; of GRPOConfig's every one is.
_CALLS: Mapping[str, Mapping[str, str]] = {
    "GRPOConfig": {},
    "GRPOTrainer": {"model": "model_name_or_path", "reward_funcs": "reward_funcs", "train_dataset": "dataset_name"},
    "LoraConfig": {"r": "lora_r", "lora_alpha": "lora_alpha", "target_modules": "lora_target_modules"},
}


class _Computed(str):
    """The text of an expression that only the script knows the value of."""


def _value(node: ast.expr, constants: Mapping[str, ast.expr]) -> Any:
    if isinstance(node, ast.Name) and node.id in constants:
        node = constants[node.id]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _Computed(ast.unparse(node))


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


def translated(stated: Mapping[str, Any]) -> Translated:
    """Return settings of TRL as overrides of verl's, and what they have that verl has not."""
    known = {key: value for key, value in stated.items() if not isinstance(value, _Computed)}
    whole = {**_DEFAULTS, **{key: value for key, value in known.items() if value is not None}}
    found = {_NAMES[key]: value for key, value in whole.items() if key in _NAMES and value is not None}
    if not whole.get("use_peft"):
        found = {key: value for key, value in found.items() if ".lora_" not in key and "target_modules" not in key}
    found.update(_loss(whole))
    found.update(_lengths(whole))
    # Whatever its rows are, they are not the toy ones: a project stops where they are not there.
    found.update(dict.fromkeys(("data.train_files", "data.val_files"), str(known.get("dataset_name") or _ROWS)))
    return overrides_of(found), tuple(_remarks(stated, whole))


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
    drawn = int(whole.get("generation_batch_size") or responses)
    loggers = whole.get("report_to", [])
    named = [loggers] if isinstance(loggers, str) else list(loggers)
    found: dict[str, Any] = {
        "data.train_batch_size": max(drawn // int(whole["num_generations"]), prompts),
        f"{_ACTOR}.ppo_mini_batch_size": prompts,
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": int(whole["per_device_train_batch_size"]),
        f"{_ROLLOUT}.name": "vllm" if whole.get("use_vllm") else "hf",
        f"{_ROLLOUT}.top_k": whole.get("top_k") or -1,
        "trainer.total_epochs": max(int(float(whole["num_train_epochs"])), 1),
        "trainer.logger": ["console", *(item for item in named if item not in ("none", "all"))],
        "trainer.test_freq": whole.get("eval_steps", -1) if whole.get("eval_strategy", "no") == "steps" else -1,
        "trainer.val_before_train": False,
    }
    if int(whole.get("max_steps", -1)) > 0:
        found["trainer.total_training_steps"] = int(whole["max_steps"])
    if whole.get("save_strategy", "steps") == "steps" and float(whole.get("save_steps", 500)) >= 1:
        found["trainer.save_freq"] = int(whole.get("save_steps", 500))
    return found


def _remarks(stated: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[Remark]:
    for key, value in sorted(stated.items()):
        if key in _TO_DO and value is not False:
            yield Remark(key, str(value), "to do", _TO_DO[key])
        elif isinstance(value, _Computed) or (isinstance(value, str) and unknowns(value)):
            yield Remark(key, readable(str(value)), "to do", "not known without running the script: set it in config/")
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
