# vextract:template base/__package__/settings/setting_types.py - edit freely
"""What type a setting has, and which values."""

from typing import Any

from . import reward_keys
from .shipped_settings import AGG_MODES, ENGINE, KL_ESTIMATORS, MODES

# The types of settings whose default is null; any other setting has its default's type.
TYPES_OF_NULL: dict[str, type | tuple[type, ...]] = {
    "actor_rollout_ref.model.custom_chat_template": str,
    "actor_rollout_ref.model.exclude_modules": (str, list),
    "actor_rollout_ref.model.external_lib": str,
    "actor_rollout_ref.model.lora_adapter_path": str,
    "actor_rollout_ref.model.path": str,
    "actor_rollout_ref.model.target_modules": (str, list),
    "actor_rollout_ref.rollout.max_model_len": int,
    "actor_rollout_ref.rollout.multi_turn.max_assistant_turns": int,
    "actor_rollout_ref.rollout.multi_turn.max_user_turns": int,
    "critic.enable": bool,
    "critic.model.path": str,
    "data.cache_dir": str,
    "data.custom_cls.name": str,
    "data.gen_batch_size": int,
    "data.custom_cls.path": str,
    "data.seed": int,
    "data.train_files": (str, list),
    "data.val_batch_size": int,
    "data.val_files": (str, list),
    "local.checkpoint.begin_from": str,
    "local.checkpoint.sharded": bool,
    "local.device": str,
    "local.devices.policy": str,
    "local.devices.reference": str,
    "local.devices.reference_map": (str, dict),
    "local.devices.rollout": str,
    "local.dtype": str,
    "local.early_stopping.metric": str,
    "local.early_stopping.patience": int,
    "local.env.error_reward": float,
    "local.env.max_turn_tokens": int,
    "local.env.timeout": float,
    "local.gradient_accumulation_steps": int,
    "local.num_threads": int,
    "local.recompute_old_log_probs": bool,
    "local.reward.debug_log": str,
    "local.reward.log_dir": str,
    "local.reward.timeout": float,
    "local.rollout_micro_batch_size": int,
    "local.server.devices": list,
    "local.server.port": int,
    "local.server.python": str,
    "local.server.sleep": bool,
    "local.server.url": str,
    "local.server.weights_directory": str,
    "trainer.max_actor_ckpt_to_keep": int,
    "trainer.resume_from_path": str,
    "trainer.rollout_data_dir": str,
    "trainer.total_training_steps": int,
    "trainer.validation_data_dir": str,
    **reward_keys.TYPES_OF_NULL,
}

ENGINES = ("hf", "sglang", "vllm")
# Settings with a fixed set of values.
CHOICES: dict[str, tuple[Any, ...]] = {
    "actor_rollout_ref.actor.kl_loss_type": KL_ESTIMATORS,
    "actor_rollout_ref.actor.loss_agg_mode": AGG_MODES,
    "actor_rollout_ref.actor.optim.lr_scheduler_type": ("constant", "cosine"),
    "actor_rollout_ref.actor.optim.warmup_style": ("constant", "cosine"),
    "actor_rollout_ref.actor.strategy": ("fsdp2",),
    "actor_rollout_ref.rollout.mode": MODES,
    "actor_rollout_ref.rollout.name": (ENGINE,),
    "algorithm.kl_ctrl.type": ("fixed", "adaptive"),
    "algorithm.kl_penalty": KL_ESTIMATORS,
    "algorithm.rollout_correction.loss_type": ("ppo_clip", "reinforce"),
    "data.truncation": ("error", "left", "right", "middle"),
    "local.device": ("cpu", "cuda", None),
    "local.dtype": ("float32", "bfloat16", "float16", None),
    "local.env.observations": ("auto", "chat", "text"),
    "local.env.reward_at": ("end", "turn"),
    "local.quantization.bnb_4bit_quant_type": ("nf4", "fp4"),
    "trainer.resume_mode": ("auto", "disable", "resume_path"),
}
