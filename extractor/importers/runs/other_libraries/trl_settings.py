"""What the settings of TRL's trainers mean under verl's names."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.other_libraries import trl_losses
from extractor.importers.runs.other_libraries.translation import ROWS, ScoredBy, Translated, is_nothing, overrides_of
from extractor.importers.runs.python.values import Computed
from extractor.importers.runs.unknowns import readable, unknowns
from extractor.values.errors import UsageError

_ACTOR, _ROLLOUT, _MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
_NAMES: Mapping[str, str] = {
    "chat_template": f"{_MODEL}.custom_chat_template",
    "dataset_prompt_column": "data.prompt_key",
    "entropy_coef": f"{_ACTOR}.entropy_coeff",
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
    "sapo_temperature_neg": f"{_ACTOR}.tau_neg",
    "sapo_temperature_pos": f"{_ACTOR}.tau_pos",
    "save_total_limit": "trainer.max_actor_ckpt_to_keep",
    "seed": "data.seed",
    "shuffle_dataset": "data.shuffle",
    "temperature": f"{_ROLLOUT}.temperature",
    "top_p": f"{_ROLLOUT}.top_p",
    "trust_remote_code": f"{_MODEL}.trust_remote_code",
    "vllm_gpu_memory_utilization": f"{_ROLLOUT}.gpu_memory_utilization",
    "vllm_max_model_length": f"{_ROLLOUT}.max_model_len",
    "vllm_tensor_parallel_size": f"{_ROLLOUT}.tensor_model_parallel_size",
    "warmup_ratio": f"{_ACTOR}.optim.lr_warmup_steps_ratio",
    "weight_decay": f"{_ACTOR}.optim.weight_decay",
}
# What earlier releases of TRL and transformers called a setting.
_EARLIER = {"evaluation_strategy": "eval_strategy", "vllm_max_model_len": "vllm_max_model_length"}
# TRL's own, where a run says nothing and verl has another: those of this release.
_RELEASE = "1.16"
_DEFAULTS: Mapping[str, Any] = {
    "entropy_coef": 0,
    "epsilon": 0.2,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-6,
    "lr_scheduler_type": "linear",
    "max_completion_length": 512,
    "num_train_epochs": 3,
    "per_device_train_batch_size": 8,
    "seed": 42,
    "weight_decay": 0.0,
}
# With `use_peft`; the layers are those that peft chooses in models such as Llama and Qwen.
_LORA: Mapping[str, Any] = {"lora_r": 16, "lora_alpha": 32, "lora_target_modules": ["q_proj", "v_proj"]}
_SCHEDULES = {
    "constant": "constant",
    "constant_with_warmup": "constant",
    "cosine": "cosine",
    "cosine_with_min_lr": "cosine",
}
_ROWS = "data/train.parquet"
_READ = {
    *("chat_template_kwargs", "eval_on_start", "warmup_steps", "vllm_importance_sampling_correction"),
    *("eval_steps", "generation_batch_size", "gradient_accumulation_steps", "lr_scheduler_type", "max_steps"),
    *("num_train_epochs", "per_device_train_batch_size", "report_to", "save_steps", "save_strategy", "top_k"),
    *("use_vllm", "eval_strategy", "steps_per_generation", "adam_beta1", "adam_beta2", "lr_scheduler_kwargs"),
    *("use_peft", *trl_losses.READ),
}
_OF_THE_MACHINE = {
    *("attn_implementation", "bf16", "dataloader_num_workers", "deepspeed", "dtype", "fp16", "logging_steps"),
    *("log_completions", "model_init_kwargs", "output_dir", "push_to_hub", "torch_dtype", "vllm_mode"),
    *("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "hub_model_id", "logging_first_step"),
    *("overwrite_output_dir", "gradient_checkpointing_kwargs", "logging_strategy", "vllm_enable_sleep_mode"),
}
# What a script hands to the trainer that no setting says.
_OF_THE_TRAINER = {"callbacks", "optimizers"}
KNOWN = {*_NAMES, *_READ, *_OF_THE_MACHINE}
_TO_DO = {
    "adapter": f"the model starts with this adapter: merge it, or say {_MODEL}.lora_adapter_path",
    "dataset_name": ROWS,
    **dict.fromkeys(("environment_factory", "rollout_func", "tools"), "turns: make custom/env_wrapper.py take them"),
    "eval_dataset": "name its rows in data.val_files",
    "peft_config": f"an adapter: say {_MODEL}.lora_rank, lora_alpha and target_modules",
    "load_in_4bit": "vextract add qlora, and local.quantization.load_in_4bit=true",
    "reward_funcs": "not found at the top of a script that is here: hand them to LocalPPOTrainer(reward_fn=[...]) as "
    "they are, or score in custom/reward_manager.py",
    "reward_model_name_or_path": "a project has a reward model or functions: with both, verl takes the model's score",
}


def translated(
    stated: Mapping[str, Any],
    scored_by: ScoredBy | None = None,
    processes: int | None = None,
    algorithm: str = trl_losses.GRPO,
) -> Translated:
    """Return settings of TRL as overrides of verl's, and what they have that verl has not.

    Args:
        stated: By their names on the command line.
        scored_by: The functions that score; None: they are not known.
        processes: How many train, each with a batch of its own; None: not known.
        algorithm: Of the trainer, GRPO's or RLOO's.
    """
    stated, of_release = trl_losses.renamed(stated) if algorithm == trl_losses.RLOO else (stated, [])
    stated = {_EARLIER.get(key, key): value for key, value in stated.items()}
    known = {key: _checked(key, value) for key, value in stated.items() if not isinstance(value, Computed)}
    known = {key: value for key, value in known.items() if value is not None}
    whole = {**_DEFAULTS, **trl_losses.DEFAULTS[algorithm], **(_LORA if known.get("use_peft") else {}), **known}
    found = {_NAMES[key]: value for key, value in whole.items() if key in _NAMES}
    if not whole.get("use_peft"):
        found = {key: value for key, value in found.items() if ".lora_" not in key and "target_modules" not in key}
    found.update({**_optimizer(whole), **trl_losses.loss(whole, algorithm)})
    batches = _Batches(whole, processes or 1)
    found.update(_lengths(whole, batches))
    judge = known.get("reward_model_name_or_path")
    if isinstance(judge, str) and scored_by is None and "reward_funcs" not in stated:
        found |= {"reward_model.enable": True, "reward_model.model.path": judge}
        stated = {key: value for key, value in stated.items() if key != "reward_model_name_or_path"}
    template = whole.get("chat_template_kwargs")
    for key, value in template.items() if isinstance(template, Mapping) else ():
        found[f"data.apply_chat_template_kwargs.{key}"] = value
    # Whatever its rows are, they are not the toy ones: a project stops where they are not there.
    found.update(dict.fromkeys(("data.train_files", "data.val_files"), str(known.get("dataset_name") or _ROWS)))
    remarks = (
        *_remarks(stated, whole, scored_by is not None or "reward_model.enable" in found),
        *_on_values(stated, whole),
        *_on_batches(known, batches, processes),
        *trl_losses.remarks(whole, algorithm, batches.updates),
        *_on_defaults(stated, whole, algorithm),
        *of_release,
    )
    return Translated(overrides_of(found), remarks, scored_by)


# What is computed with, and the least that each may be; a run of TRL's ends there as well.
_NUMBERS: Mapping[str, float] = {
    "beta": 0,
    "epsilon": 0,
    "eval_steps": 0,
    "generation_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "max_steps": -1,
    "num_generations": 1,
    "num_iterations": 1,
    "num_train_epochs": -1,  # as some say it where `max_steps` counts
    "per_device_train_batch_size": 1,
    "save_steps": 0,
    "steps_per_generation": 1,
    "warmup_steps": 0,
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


def _optimizer(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return the learning rate's schedule, and what else the optimizer has."""
    found: dict[str, Any] = {
        f"{_ACTOR}.optim.lr_scheduler_type": _SCHEDULES.get(str(whole["lr_scheduler_type"]), "constant")
    }
    more = whole.get("lr_scheduler_kwargs")
    more = more if isinstance(more, Mapping) else {}
    rates = more.get("min_lr"), whole["learning_rate"]
    lowest = more.get("min_lr_rate")
    if lowest is None and all(isinstance(rate, (int, float)) and rate > 0 for rate in rates):
        lowest = rates[0] / rates[1]
    if whole["lr_scheduler_type"] == "cosine_with_min_lr" and lowest is not None:
        found[f"{_ACTOR}.optim.min_lr_ratio"] = lowest
    if {"adam_beta1", "adam_beta2"} & whole.keys():
        found[f"{_ACTOR}.optim.betas"] = [whole.get("adam_beta1", 0.9), whole.get("adam_beta2", 0.999)]
    return found


class _Batches:
    """What a run's batches are.

    Attributes:
        of_device: Responses in a pass of one process.
        prompts: Of an optimizer step, over all processes.
        drawn: Prompts whose responses are written at a time.
        updates: Optimizer steps of TRL's in a step of verl's, which is all that is done with them.
    """

    def __init__(self, whole: Mapping[str, Any], processes: int) -> None:
        self.of_device, generations = int(whole["per_device_train_batch_size"]), int(whole["num_generations"])
        accumulated = int(whole["gradient_accumulation_steps"])
        steps = int(whole.get("steps_per_generation") or accumulated)
        written = int(whole.get("generation_batch_size") or self.of_device * steps * processes)
        self.prompts = max(self.of_device * accumulated * processes // generations, 1)
        self.drawn = max(written // generations, self.prompts)
        self.updates = math.ceil(self.drawn / self.prompts) * int(whole.get("num_iterations", 1))

    def steps(self, count: float) -> int:
        """Return how many steps of verl's so many of TRL's optimizer steps are."""
        return max(math.ceil(count / self.updates), 1)


def _lengths(whole: Mapping[str, Any], batches: _Batches) -> dict[str, Any]:
    """Return batches, of prompts and for one device, and how long the run is."""
    loggers = whole.get("report_to", [])
    named = loggers if isinstance(loggers, list) else [loggers]
    last, epochs = int(whole.get("max_steps", -1)), float(whole["num_train_epochs"])

    def every(interval: Any) -> int:  # below 1 it is a share of the run
        if 0 < interval < 1:
            return batches.steps(interval * last) if last > 0 else -1
        return batches.steps(interval) if interval > 0 else -1

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


def _remarks(stated: Mapping[str, Any], whole: Mapping[str, Any], is_scored: bool) -> Iterator[Remark]:
    if not is_scored and all(stated.get(key) is None for key in ("reward_funcs", "reward_model_name_or_path")):
        yield Remark("reward_funcs", None, "to do", "not stated: say in custom/reward_manager.py what scores")
    for key, value in sorted(stated.items()):
        if is_scored and (key == "reward_funcs" or (key == "reward_weights" and isinstance(value, (list, int, float)))):
            continue
        if key == "eval_dataset" and whole.get("eval_strategy", "no") == "no":
            continue
        if key in _OF_THE_TRAINER and value not in (None, []):
            yield Remark(key, value, "not carried over", "what it does beside TRL's trainer")
        elif key in _TO_DO and value not in (None, False):
            yield Remark(key, str(value), "to do", _TO_DO[key])
        elif isinstance(value, Computed) or (isinstance(value, str) and unknowns(value)):
            what = "dropped" if key in _OF_THE_MACHINE or key == "run_name" else "to do"
            yield Remark(key, readable(str(value)), what, "not known without running the script: set it in config/")
        elif key not in _NAMES and key not in _READ and not is_nothing(value):
            what = "dropped" if key in _OF_THE_MACHINE else "not carried over"
            yield Remark(key, value, what, "of TRL alone")


def _on_values(stated: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield settings whose value means something else here."""
    if str(whole["lr_scheduler_type"]) not in _SCHEDULES:
        why = "verl has constant and cosine: constant"
        yield Remark("lr_scheduler_type", whole["lr_scheduler_type"], "changed", why)
    more = whole.get("lr_scheduler_kwargs")
    if isinstance(more, Mapping) and (further := more.keys() - {"min_lr", "min_lr_rate"}):
        yield Remark(
            "lr_scheduler_kwargs", ", ".join(sorted(further)), "not carried over", "verl's schedules have none"
        )
    if whole.get("use_peft") and "lora_target_modules" not in stated:
        why = "those that peft would choose in a Llama or Qwen: " + ", ".join(_LORA["lora_target_modules"])
        yield Remark("lora_target_modules", None, "changed", why)
    for key, name in (("save_strategy", "trainer.save_freq"), ("eval_strategy", "trainer.test_freq")):
        if stated.get(key) in ("epoch", "best"):
            yield Remark(key, stated[key], "to do", f"verl counts steps, and has none of it: set {name}")
    if float(whole["num_train_epochs"]) % 1:
        yield Remark("num_train_epochs", whole["num_train_epochs"], "changed", "whole epochs, rounded up")


def _on_batches(known: Mapping[str, Any], batches: _Batches, processes: int | None) -> Iterator[Remark]:
    """Yield what is counted otherwise: batches by devices, steps by updates."""
    if processes is None:
        why = "for one device; TRL has as many for each"
        size = known.get("per_device_train_batch_size", _DEFAULTS["per_device_train_batch_size"])
        accumulated = known.get("gradient_accumulation_steps", _DEFAULTS["gradient_accumulation_steps"])
        yield Remark("per_device_train_batch_size * gradient_accumulation_steps", size * accumulated, "changed", why)
    if batches.updates > 1:
        for key in ("max_steps", "eval_steps", "save_steps", "warmup_steps"):
            if (value := known.get(key, 0)) >= 1:
                why = f"{batches.steps(value)} steps here, each of {batches.updates} of TRL's"
                yield Remark(key, value, "changed", why)


def _on_defaults(stated: Mapping[str, Any], whole: Mapping[str, Any], algorithm: str) -> Iterator[Remark]:
    """Yield what the run leaves to its release of TRL, where releases differ."""
    for key in trl_losses.HAS_CHANGED[algorithm]:
        if key not in stated:
            yield Remark(key, whole[key], "changed", f"not stated: as in TRL {_RELEASE}; other releases differ")
