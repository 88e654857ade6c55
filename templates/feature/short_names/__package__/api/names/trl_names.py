# vextract:template - edit freely
"""TRL's names of settings."""

import math
import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ConfigError
from ...settings.setting import SETTINGS
from .short_names import ACTOR, MODEL, NOTHING, ROLLOUT, Short, ShortNames, documented, short


def _epochs(value: float) -> int:
    if value != int(value) or value < 1:
        raise ConfigError(f"num_train_epochs is {value}", "give a whole number; max_steps counts in steps")
    return int(value)


def _loggers(value: str | Sequence[str]) -> list[str]:
    names = [value] if isinstance(value, str) else list(value)
    return ["console", *(name for name in names if name not in ("none", "console"))]


def _top_k(value: int) -> int:
    return value or -1  # 0 is all tokens


def _steps(value: int) -> int | None:
    return value if value > 0 else None


def _one_of(name: str, meanings: Mapping[Any, Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value not in meanings:
            known = ", ".join(str(choice) for choice in meanings)
            raise ConfigError(f"{name} is {value!r}", f"choose one of: {known}; others: settings={{key: value}}")
        return meanings[value]

    return convert


LOSSES = {
    "bnpo": "token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
    "grpo": "seq-mean-token-mean",
}
# verl has no linear decay, which is transformers' default; a warm-up is a setting of its own.
_NAMES = [f"{ACTOR}.optim.{name}" for name in ("lr_scheduler_type", "warmup_style")]
SCHEDULE = next(name for name in _NAMES if name in SETTINGS)  # as this release of verl calls it
SCHEDULES = {"constant": "constant", "constant_with_warmup": "constant", "cosine": "cosine"}
OPTIMIZERS = {"adamw_torch": NOTHING, "adamw_torch_fused": NOTHING}
RATIOS = {"token": NOTHING, "sequence": "gspo"}
BETAS = (0.9, 0.999)  # transformers' defaults of adam_beta1 and adam_beta2
SCALES = {True: True, "group": True, False: False, "none": False}
COUNTED = ("max_steps", "save_steps", "eval_steps", "warmup_steps")  # in optimizer steps
N = 8  # TRL's number of responses to a prompt


@documented
@dataclass(kw_only=True)
class GRPOConfig(ShortNames):
    """The settings that a script for TRL's GRPOTrainer is likely to have, under its names. None: what config/ says.

    A batch is counted as there: per_device_train_batch_size times gradient_accumulation_steps responses of each process
    make a step, num_generations (8) to each prompt. A step here is all that is done with a batch, num_iterations of
    TRL's optimizer steps: what is counted in these becomes as many steps as that is. `reward_weights` are those of the
    reward functions. `settings` takes any other settings, by the config's keys.
    """

    output_dir: str | None = short("where the run's records and checkpoints go", "trainer.default_local_dir")
    run_name: str | None = short("of the run", "trainer.experiment_name")
    num_train_epochs: float | None = short("passes over the prompts", "trainer.total_epochs", convert=_epochs)
    max_steps: int | None = short(
        "steps to train for, -1: see num_train_epochs", "trainer.total_training_steps", convert=_steps
    )
    per_device_train_batch_size: int | None = short("responses per pass", f"{ACTOR}.ppo_micro_batch_size_per_gpu")
    gradient_accumulation_steps: int | None = short("passes per optimizer step")
    num_generations: int | None = short("responses to each prompt", f"{ROLLOUT}.n")
    num_iterations: int | None = short("times that each batch is trained on", f"{ACTOR}.ppo_epochs")
    learning_rate: float | None = short("of the policy", f"{ACTOR}.optim.lr")
    lr_scheduler_type: str | None = short("its course", SCHEDULE, convert=_one_of("lr_scheduler_type", SCHEDULES))
    optim: str | None = short("AdamW", convert=_one_of("optim", OPTIMIZERS))
    adam_beta1: float | None = short(f"of AdamW ({ACTOR}.optim.betas)")
    adam_beta2: float | None = short(f"of AdamW ({ACTOR}.optim.betas)")
    adam_epsilon: float | None = short("of AdamW: 1e-8", convert=_one_of("adam_epsilon", {1e-8: NOTHING}))
    weight_decay: float | None = short("of the optimizer", f"{ACTOR}.optim.weight_decay")
    warmup_ratio: float | None = short("share of the steps", f"{ACTOR}.optim.lr_warmup_steps_ratio")
    warmup_steps: int | None = short("in which the rate rises", f"{ACTOR}.optim.lr_warmup_steps")
    max_grad_norm: float | None = short("what gradients are clipped to", f"{ACTOR}.grad_clip")
    beta: float | None = short(
        "weight of the KL divergence in the loss", f"{ACTOR}.kl_loss_coef", switch=f"{ACTOR}.use_kl_loss"
    )
    epsilon: float | None = short(
        "how far the probability ratio may move",
        f"{ACTOR}.clip_ratio",
        follow=[f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high"],
    )
    epsilon_high: float | None = short("the same, upwards", f"{ACTOR}.clip_ratio_high")
    loss_type: str | None = short("how", f"{ACTOR}.loss_agg_mode", convert=_one_of("loss_type", LOSSES))
    scale_rewards: bool | str | None = short(
        "divide advantages by the group's deviation",
        "algorithm.norm_adv_by_std_in_grpo",
        convert=_one_of("scale_rewards", SCALES),
    )
    importance_sampling_level: str | None = short(
        "of which the probability ratio is: token, or sequence (GSPO)",
        f"{ACTOR}.policy_loss.loss_mode",
        convert=_one_of("importance_sampling_level", RATIOS),
    )
    max_prompt_length: int | None = short("in tokens", "data.max_prompt_length")
    max_completion_length: int | None = short("in tokens", "data.max_response_length")
    temperature: float | None = short("of sampling", f"{ROLLOUT}.temperature")
    top_p: float | None = short("of sampling", f"{ROLLOUT}.top_p")
    top_k: int | None = short("of sampling", f"{ROLLOUT}.top_k", convert=_top_k)
    min_p: float | None = short("of sampling", f"{ROLLOUT}.min_p")
    repetition_penalty: float | None = short("of sampling", f"{ROLLOUT}.repetition_penalty")
    seed: int | None = short("of sampling and of the order of prompts", "local.seed", follow=["data.seed"])
    save_steps: int | None = short("save every so many steps", "trainer.save_freq")
    save_strategy: str | None = short(
        "whether by save_steps", "trainer.save_freq", convert=_one_of("save_strategy", {"steps": NOTHING, "no": -1})
    )
    save_total_limit: int | None = short("checkpoints that are kept", "trainer.max_actor_ckpt_to_keep")
    eval_steps: int | None = short("validate every so many steps", "trainer.test_freq")
    eval_strategy: str | None = short(
        "whether by eval_steps", "trainer.test_freq", convert=_one_of("eval_strategy", {"steps": NOTHING, "no": -1})
    )
    per_device_eval_batch_size: int | None = short("no matter: see data.val_batch_size")
    logging_steps: int | None = short("no matter: every step is logged")
    logging_strategy: str | None = short("no matter: every step is logged")
    log_completions: bool | None = short("no matter: samples are recorded, see local.log_train_generations")
    remove_unused_columns: bool | None = short("no matter: rewards get the columns that they name")
    disable_tqdm: bool | None = short("no matter: there is no such bar")
    push_to_hub: bool | None = short("false", convert=_one_of("push_to_hub", {False: NOTHING}))
    dataloader_num_workers: int | None = short("that prepare batches", "data.dataloader_num_workers")
    report_to: str | Sequence[str] | None = short("trackers, or none", "trainer.logger", convert=_loggers)
    bf16: bool | None = short(
        "what passes compute in", "local.dtype", convert=_one_of("bf16", {True: "bfloat16", False: NOTHING})
    )
    fp16: bool | None = short("the same", "local.dtype", convert=_one_of("fp16", {True: "float16", False: NOTHING}))
    gradient_checkpointing_kwargs: Mapping[str, Any] | None = short("no matter: use_reentrant is false")
    gradient_checkpointing: bool | None = short("in the backward pass", f"{MODEL}.enable_gradient_checkpointing")
    use_vllm: bool | None = short(
        "the project has been made with vLLM",
        f"{ROLLOUT}.name",
        convert=_one_of("use_vllm", {True: "vllm", False: NOTHING}),
    )
    vllm_mode: str | None = short(
        "in this process, or a server",
        f"{ROLLOUT}.mode",
        convert=_one_of("vllm_mode", {"colocate": "sync", "server": "async"}),
    )
    vllm_gpu_memory_utilization: float | None = short("of vLLM", f"{ROLLOUT}.gpu_memory_utilization")
    vllm_tensor_parallel_size: int | None = short("of vLLM", f"{ROLLOUT}.tensor_model_parallel_size")
    reward_weights: Sequence[float] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def chosen(self, preset: str) -> list[tuple[str, Short, Any]]:
        """Return the names that are given, what they stand for, and their values, counted in steps of verl's."""
        times = self.num_iterations or 1
        chosen = super().chosen(preset)
        return [(name, one, math.ceil(value / times) if name in COUNTED else value) for name, one, value in chosen]

    def derived(self) -> dict[tuple[str, str], Any]:
        """Return AdamW's betas, and the size of a batch in prompts."""
        return self._betas() | self._sizes()

    def _betas(self) -> dict[tuple[str, str], Any]:
        given = (self.adam_beta1, self.adam_beta2)
        if given == (None, None):
            return {}
        betas = [usual if beta is None else beta for beta, usual in zip(given, BETAS, strict=True)]
        return {("adam_beta1, adam_beta2", f"{ACTOR}.optim.betas"): betas}

    def _sizes(self) -> dict[tuple[str, str], Any]:
        rows, passes = self.per_device_train_batch_size, self.gradient_accumulation_steps
        if rows is None:
            key = "local.gradient_accumulation_steps"
            return {} if passes is None else {("gradient_accumulation_steps", key): passes}
        responses = rows * (passes or 1) * int(os.environ.get("WORLD_SIZE", "1"))
        n = self.num_generations or N
        if responses < n or responses % n:
            raise ConfigError(
                f"a step has {responses} responses, which are not {n} to each of some prompts",
                "make per_device_train_batch_size times gradient_accumulation_steps a multiple of num_generations",
            )
        prompts = responses // n
        sizes = {f"{ROLLOUT}.n": n, "data.train_batch_size": prompts, f"{ACTOR}.ppo_mini_batch_size": prompts}
        return {("per_device_train_batch_size", key): size for key, size in sizes.items()}

    def follows(self, stated: Container[str]) -> dict[str, Any]:
        """Have epochs count where they are given."""
        return {} if self.num_train_epochs is None else {"trainer.total_training_steps": None}


def adapter_settings(peft_config: Any) -> dict[str, Any]:
    """Return the settings of an adapter that peft's LoraConfig describes."""
    if peft_config is None:
        return {}
    found = {"lora_rank": peft_config.r, "lora_alpha": peft_config.lora_alpha}
    if peft_config.target_modules:
        modules = peft_config.target_modules
        found["target_modules"] = modules if isinstance(modules, str) else sorted(modules)
    return {f"{MODEL}.{name}": value for name, value in found.items()}
