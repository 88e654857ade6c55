"""Settings of verl that a project has no use for, and what becomes of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """Holds what becomes of the settings whose keys fit a pattern.

    Attributes:
        pattern: Regular expression of whole keys, as verl calls them.
        what: "lowered", "dropped" or "not carried over".
        why: Reason.
    """

    pattern: str
    what: str
    why: str

    def fits(self, key: str) -> bool:
        """Say whether a key is one of those that the rule is about."""
        return re.fullmatch(self.pattern, key) is not None


# Machines, Ray, and back ends that a project does not have: such a key means nothing here, whatever its release.
_OTHER_BACK_ENDS = (
    Rule(r"trainer\.(nnodes|n_gpus_per_node)", "lowered", "a project starts on one device; torchrun gives it more"),
    Rule(r"(.*\.)?(n_gpus_per_node|nnodes)", "lowered", "a project starts on one device"),
    Rule(
        r"(.*\.)?(tensor|pipeline|data|expert|context)_(model_)?parallel_size", "lowered", "one device holds the model"
    ),
    Rule(r"(.*\.)?ulysses_sequence_parallel_size", "lowered", "one device holds the model"),
    Rule(
        r"(ray_init|ray_kwargs|transfer_queue|global_profiler|.*profile\w*|.*nsight\w*)(\..*)?",
        "dropped",
        "there is no Ray",
    ),
    Rule(
        r"trainer\.(ray_wait_register_center_timeout|device|use_legacy_worker_impl|use_v1|v1.*|esi_.*)",
        "dropped",
        "there is no Ray",
    ),
    Rule(r"(.*\.)?megatron(\..*)?", "dropped", "a project trains with FSDP, or on one device whole"),
    Rule(
        r"(.*\.)?(virtual_pipeline\w*|override_transformer_config.*|vanilla_mbridge|use_mbridge|use_remove_padding_megatron)",
        "dropped",
        "of Megatron",
    ),
    Rule(
        r"(.*\.)?(load_weight|optimizer_offload_fraction|router_replay.*|use_dist_checkpointing|dist_checkpointing.*)",
        "dropped",
        "of Megatron",
    ),
    Rule(r"(.*\.)?(veomni|torchtitan|mindspeed|automodel)(\..*)?", "dropped", "another engine than FSDP"),
    Rule(
        r"(.*\.)?(forward_prefetch|entropy_from_logits_with_chunking|limit_images|use_shm|use_orig_params|reshard_after_forward|grad_offload)",
        "dropped",
        "changes speed or memory only",
    ),
    Rule(
        r"(.*\.)?(enable_activation_offload|use_fused_kernels|fused_kernel_options.*|use_liger|use_prefix_grouper)",
        "dropped",
        "changes speed or memory only",
    ),
)
# Servers of rollouts and tools, which a project starts in its own way or not at all.
_OTHER_SERVERS = (
    Rule(
        r"actor_rollout_ref\.rollout\.(agent|server|trace|checkpoint_engine|update_weights\w*|layered_summon|prometheus|skip\w*|nnodes|disaggregation|over_sample_rate|multi_stage_wake_up|cudagraph\w*|enable_sleep\w*|free_cache\w*|quantization\w*|expert.*|logprobs_mode|scheduling_policy|mtp.*)(\..*)?",
        "dropped",
        "of verl's own rollout servers",
    ),
    Rule(
        r"actor_rollout_ref\.rollout\.multi_turn\.(format|tool_config_path|interaction_config_path|\w+)",
        "dropped",
        "tools and interactions become an environment: custom/env_wrapper.py",
    ),
)
# What the project's own parts have no such setting for, or derive.
_OTHER_PARTS = (
    Rule(
        r"actor_rollout_ref\.rollout\.engine_kwargs(\..*)?", "dropped", "arguments of another engine than the project's"
    ),
    Rule(r"actor_rollout_ref\.rollout\.(val_kwargs\..*|\w+)", "dropped", "the project's rollout has no such setting"),
    Rule(r"(.*\.)?checkpoint(\..*)?", "dropped", "the project saves whole checkpoints"),
    Rule(
        r"(.*\.)?(ppo_micro_batch_size|log_prob_micro_batch_size|forward_micro_batch_size|micro_batch_size)",
        "lowered",
        "given for all devices together: divided among them",
    ),
    Rule(
        r"(actor_rollout_ref\.actor|critic)\.optim\.total_training_steps",
        "dropped",
        "the trainer works it out, from what trainer says",
    ),
    Rule(r"data\.tokenizer", "dropped", "no code of verl's trainer reads it: the tokenizer is the model's"),
    Rule(r"critic\.model\.tokenizer_path", "dropped", "the critic reads the policy's tokens"),
    Rule(
        r"(.*\.)?(tokenizer|tokenizer_path)",
        "not carried over",
        "the project takes the tokenizer that lies with the model: put its files there",
    ),
    Rule(
        r"(.*\.)?(deterministic|full_determinism)",
        "dropped",
        "actor_rollout_ref.actor.fsdp_config.full_determinism is for the whole run",
    ),
    Rule(r"(.*\.)?(shuffle|data_loader_seed|seed)", "dropped", "seeded by data.seed and local.seed"),
    Rule(
        r"trainer\.(default_hdfs_dir|del_local_ckpt_after_load|\w*ckpt\w*|validation_data_dir|rollout_data_dir)",
        "dropped",
        "the project writes into trainer.default_local_dir",
    ),
    Rule(
        r"(reward|reward_model|reward_manager|sandbox_fusion|custom_reward_function)(\..*)?",
        "dropped",
        "of a reward that the project computes in another way",
    ),
    Rule(
        r"data\.(\w*image\w*|\w*video\w*|\w*audio\w*|mm_\w+|return_multi_modal_inputs|processor\w*|tool_config_path|sampler.*|datagen.*|curriculum.*|use_shm|tokenizer|\w*workers?)(\..*)?",
        "dropped",
        "the project's data have no such setting",
    ),
    Rule(r"trainer\.critic_warmup", "dropped", "its estimator has no critic"),
    Rule(r"algorithm\.filter_groups\..*", "dropped", "dynamic sampling, which the run has not switched on"),
    Rule(
        r"(critic|actor_rollout_ref\.ref|actor_rollout_ref\.actor|actor_rollout_ref\.model|algorithm|data|trainer)\..*",
        "not carried over",
        "the project has no such setting",
    ),
    Rule(r"actor_rollout_ref\.(hybrid_engine|rollout|\w+)(\..*)?", "dropped", "the project has one engine"),
    Rule(
        r"distillation\.teacher_models\.\w+\.(inference|num_replicas)(\..*)?",
        "dropped",
        "of verl's servers of teachers: here a teacher computes in the trainer's process",
    ),
    Rule(r"distillation(\..*)?", "not carried over", "a project has a teacher with verl 0.8.0 or later"),
    Rule(r"(model_engine|async_training|partial_rollout|optim)(\..*)?", "dropped", "another trainer's"),
    Rule(r"hydra(\..*)?", "dropped", "the project writes into trainer.default_local_dir"),
)


def rule_for(key: str) -> Rule | None:
    """Find what becomes of a setting that the project has no key for: the first rule that fits counts."""
    return next((rule for rule in (*_OTHER_BACK_ENDS, *_OTHER_SERVERS, *_OTHER_PARTS) if rule.fits(key)), None)


def is_of_another_back_end(key: str) -> bool:
    """Say whether a key is about machines, Ray, or a back end that a project does not have."""
    return any(rule.fits(key) for rule in _OTHER_BACK_ENDS)


# What the run leaves to verl's defaults, and the project does in its own way: no setting is lost by it.
KEPT = "the project's own"


@dataclass(frozen=True)
class Remark:
    """Holds what became of one of the run's settings that is not simply carried.

    Attributes:
        key: verl's.
        value: As the run has it.
        what: "to do", "unhandled", "not carried over", "changed", "renamed", "lowered", "dropped" or KEPT.
        why: Reason.
    """

    key: str
    value: Any
    what: str
    why: str


_ABOUT_WHERE = (
    "global_profiler",
    "ray_",
    "skip.",
    "trainer.default_",
    "trainer.experiment_name",
    "trainer.project_name",
    "trainer.rollout_data_dir",
)


def is_about_where(key: str) -> bool:
    """Say whether a project does without a key's value: names of runs, directories, machines, when to save."""
    return (
        key.startswith(_ABOUT_WHERE)
        or key in ("trainer.logger", "trainer.validation_data_dir", "trainer.resume_from_path", "trainer.device")
        or key in ("trainer.save_freq", "trainer.test_freq")  # when it is looked at, not what comes of it
        or key.endswith(("nnodes", "n_gpus_per_node"))
        or is_of_another_back_end(key)
        or any(rule.fits(key) for rule in _OTHER_SERVERS)
    )
