"""Classify verl settings that a project has no key for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# What the run leaves to verl's defaults, and the project does in its own way: no setting is lost by it.
KEPT = "the project's own"


@dataclass(frozen=True)
class Remark:
    """The outcome of a run's setting that is not simply carried.

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


@dataclass(frozen=True)
class Rule:
    """The outcome of settings whose keys match a pattern.

    Attributes:
        what: "lowered", "dropped" or "not carried over".
        why: Reason.
        pattern: Regular expression of whole keys, as verl calls them.
    """

    what: str
    why: str
    pattern: str

    def fits(self, key: str) -> bool:
        """Tell whether a key matches the rule's pattern."""
        return re.fullmatch(self.pattern, key) is not None


_ROLLOUT = r"actor_rollout_ref\.rollout\."
_DEVICES, _DIVIDED = "a project starts on one device; torchrun gives it more", "divided among the run's devices"
_SETTLED, _REWARD = "the project settles it in its own way", "of a reward that the project computes in another way"
_NO_PLACE, _SERVERS = "the project has no such setting", "of verl's own rollout servers, and their tools"
# Machines, Ray, and back ends that a project does not have: such a key means nothing here, whatever its release.
_OTHER_BACK_ENDS = (
    Rule("lowered", _DEVICES, r"(.*\.)?(n_gpus_per_node|nnodes|ulysses_sequence_parallel_size)"),
    Rule("lowered", _DEVICES, r"(.*\.)?(tensor|pipeline|data|expert|context)_(model_)?parallel_size"),
    Rule(
        "dropped",
        "there is no Ray",
        r"(ray_init|ray_kwargs|transfer_queue|global_profiler|.*profile\w*|.*nsight\w*)(\..*)?"
        r"|trainer\.(ray_wait_register_center_timeout|device|use_legacy_worker_impl|use_v1|v1.*|esi_.*)",
    ),
    Rule(
        "dropped",
        "a project trains with FSDP, or on one device whole",
        r"(.*\.)?(megatron|veomni|torchtitan|mindspeed|automodel)(\..*)?"
        r"|(.*\.)?(virtual_pipeline\w*|override_transformer_config.*|vanilla_mbridge|use_mbridge"
        r"|use_remove_padding_megatron|load_weight|optimizer_offload_fraction|router_replay.*|use_dist_checkpointing"
        r"|dist_checkpointing.*)",
    ),
    Rule(
        "dropped",
        "changes speed or memory only",
        r"(.*\.)?(forward_prefetch|entropy_from_logits_with_chunking|limit_images|use_shm|use_orig_params"
        r"|reshard_after_forward|grad_offload|enable_activation_offload|use_fused_kernels|fused_kernel_options.*"
        r"|use_liger|use_prefix_grouper)",
    ),
)
# Servers of rollouts and tools, which a project starts in its own way or not at all.
_OTHER_SERVERS = (
    Rule(
        "dropped",
        _SERVERS,
        _ROLLOUT + r"(agent|server|trace|checkpoint_engine|update_weights\w*|layered_summon|prometheus|skip\w*|nnodes"
        r"|disaggregation|over_sample_rate|multi_stage_wake_up|cudagraph\w*|enable_sleep\w*|free_cache\w*"
        r"|quantization\w*|expert.*|logprobs_mode|scheduling_policy|mtp.*)(\..*)?",
    ),
    Rule("dropped", "tools become an environment: custom/env_wrapper.py", _ROLLOUT + r"multi_turn\.\w+"),
)
# What the project's own parts have no such setting for, or derive.
_OTHER_PARTS = (
    Rule("dropped", "the project's rollout has no such setting", _ROLLOUT + r"((engine_kwargs|val_kwargs)\..*|\w+)"),
    Rule("lowered", _DIVIDED, r"(.*\.)?(ppo_|log_prob_|forward_)?micro_batch_size"),
    Rule(
        "dropped",
        _SETTLED,
        r"(.*\.)?(checkpoint(\..*)?|deterministic|full_determinism|shuffle|data_loader_seed|seed)"
        r"|(actor_rollout_ref\.actor|critic)\.optim\.total_training_steps|data\.tokenizer|critic\.model\.tokenizer_path"
        r"|trainer\.(default_hdfs_dir|del_local_ckpt_after_load|\w*ckpt\w*|validation_data_dir|rollout_data_dir)"
        r"|hydra(\..*)?",
    ),
    Rule("not carried over", "put the tokenizer's files beside the model's", r"(.*\.)?(tokenizer|tokenizer_path)"),
    Rule(
        "dropped",
        _REWARD,
        r"(reward|reward_model|reward_manager|sandbox_fusion|custom_reward_function)(\..*)?",
    ),
    Rule(
        "dropped",
        "the project's data have no such setting",
        r"data\.(\w*image\w*|\w*video\w*|\w*audio\w*|mm_\w+|return_multi_modal_inputs|processor\w*|tool_config_path"
        r"|sampler.*|datagen.*|curriculum.*|use_shm|\w*workers?)(\..*)?",
    ),
    Rule("dropped", "of a part that the run does not use", r"trainer\.critic_warmup|algorithm\.filter_groups\..*"),
    Rule(
        "not carried over",
        _NO_PLACE,
        r"(critic|actor_rollout_ref\.(ref|actor|model)|algorithm|data|trainer)\..*",
    ),
    Rule(
        "dropped",
        "of verl's servers of teachers: here a teacher computes in the trainer's process",
        r"distillation\.teacher_models\.\w+\.(inference|num_replicas)(\..*)?",
    ),
    Rule("not carried over", "a project has a teacher with verl 0.8.0 or later", r"distillation(\..*)?"),
    Rule(
        "dropped",
        "another trainer's",
        r"(model_engine|async_training|partial_rollout|optim)(\..*)?|actor_rollout_ref\.\w+(\..*)?",
    ),
)
# Names of runs, directories, and when it is looked at, not what comes of it.
_ABOUT_WHERE = re.compile(
    r"(global_profiler|ray_|skip\.|trainer\.(default_|experiment_name|project_name|rollout_data_dir)).*"
    r"|trainer\.(logger|validation_data_dir|resume_from_path|device|save_freq|test_freq)"
)


def find_rule(key: str) -> Rule | None:
    """Return the first rule that fits a key, or None."""
    return next((rule for rule in (*_OTHER_BACK_ENDS, *_OTHER_SERVERS, *_OTHER_PARTS) if rule.fits(key)), None)


@lru_cache(maxsize=4096)
def is_of_another_back_end(key: str) -> bool:
    """Tell whether a key concerns machines, Ray or an unsupported backend."""
    return any(rule.fits(key) for rule in _OTHER_BACK_ENDS)


def is_about_where(key: str) -> bool:
    """Tell whether a key only concerns names, directories, machines or saving."""
    return (
        _ABOUT_WHERE.fullmatch(key) is not None
        or key.endswith(("nnodes", "n_gpus_per_node"))
        or is_of_another_back_end(key)
        or any(rule.fits(key) for rule in _OTHER_SERVERS)
    )
