# vextract:template settings/__package__/settings/shipped_settings.py.jinja - made anew by every upgrade
"""What the config of this project had when it was made, for the checks at the start of a run."""

# The engine that rollouts come from, and how: in this process (sync), or over HTTP (async).
ENGINE = "hf"
MODES = ("sync",)
# The optional parts of verl that it was made with.
FEATURES: tuple[str, ...] = ()

# The hooks that register something: those that came with this project, and those that an upgrade has brought since.
HOOKS: tuple[str, ...] = (
    "algorithms",
    "reward_manager",
)

# Settings that nothing in this project reads, with the values that they came with: another value would change nothing.
UNREAD: dict[str, tuple[object, ...]] = {
    "actor_rollout_ref.model.exclude_modules": (None,),
    "actor_rollout_ref.rollout.disable_log_stats": (True,),
    "actor_rollout_ref.rollout.enable_chunked_prefill": (True,),
    "actor_rollout_ref.rollout.enable_prefix_caching": (True,),
    "actor_rollout_ref.rollout.enforce_eager": (False,),
    "actor_rollout_ref.rollout.free_cache_engine": (True,),
    "actor_rollout_ref.rollout.gpu_memory_utilization": (0.5,),
    "actor_rollout_ref.rollout.ignore_eos": (False,),
    "actor_rollout_ref.rollout.load_format": ("dummy",),
    "actor_rollout_ref.rollout.max_model_len": (None,),
    "actor_rollout_ref.rollout.max_num_batched_tokens": (8192,),
    "actor_rollout_ref.rollout.max_num_seqs": (1024,),
    "actor_rollout_ref.rollout.tensor_model_parallel_size": (1,),
    "distillation.distillation_loss.log_prob_min_clamp": (-10.0,),
    "distillation.distillation_loss.loss_max_clamp": (10.0,),
    "distillation.distillation_loss.use_policy_gradient": (True,),
    "distillation.distillation_loss.use_task_rewards": (False,),
    "local.quantization.bnb_4bit_quant_type": ("nf4",),
    "local.quantization.bnb_4bit_use_double_quant": (True,),
    "local.quantization.load_in_4bit": (False,),
}

# What would read them, if the project had it.
READERS: dict[str, str] = {
    "actor_rollout_ref.model.exclude_modules": "feature lora",
    "actor_rollout_ref.rollout.disable_log_stats": "engine vllm",
    "actor_rollout_ref.rollout.enable_chunked_prefill": "engine vllm",
    "actor_rollout_ref.rollout.enable_prefix_caching": "engine sglang, engine vllm",
    "actor_rollout_ref.rollout.enforce_eager": "engine sglang, engine vllm",
    "actor_rollout_ref.rollout.free_cache_engine": "engine sglang, engine vllm",
    "actor_rollout_ref.rollout.gpu_memory_utilization": "engine sglang, engine vllm",
    "actor_rollout_ref.rollout.ignore_eos": "engine sglang, engine vllm",
    "actor_rollout_ref.rollout.load_format": "engine sglang, engine vllm",
    "actor_rollout_ref.rollout.max_model_len": "engine sglang, engine vllm, feature distillation",
    "actor_rollout_ref.rollout.max_num_batched_tokens": "engine vllm",
    "actor_rollout_ref.rollout.max_num_seqs": "engine sglang, engine vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size": "engine sglang, engine vllm",
    "distillation.distillation_loss.use_policy_gradient": "feature distillation, feature rollout_correction",
    "distillation.distillation_loss.use_task_rewards": "feature distillation",
    "local.quantization.bnb_4bit_quant_type": "feature qlora",
    "local.quantization.bnb_4bit_use_double_quant": "feature qlora",
    "local.quantization.load_in_4bit": "feature qlora",
}

# What this release of verl makes one number of token losses by, and estimates a KL divergence by.
AGG_MODES = (
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "token-mean",
    "token-sum",
)
# Whether seq-mean-token-sum-norm adds the responses of a pass up, as upstream's up to 0.7.0 does, and takes no mean.
SUMS_RESPONSES = False
# Whether a loss is the mean of the means of its passes, as upstream's is up to 0.7.1.
MEANS_OF_PASSES = False
KL_ESTIMATORS = (
    "abs",
    "k1",
    "k2",
    "k3",
    "kl",
    "low_var_kl",
    "mse",
    "abs+",
    "k1+",
    "k2+",
    "k3+",
    "kl+",
    "low_var_kl+",
    "mse+",
)

# The responses per pass that its config files give.
PASS_SIZES = (8, 512)

# All settings.
SETTINGS = frozenset(
    """
actor_rollout_ref.actor.calculate_entropy
actor_rollout_ref.actor.calculate_sum_pi_squared
actor_rollout_ref.actor.clip_ratio
actor_rollout_ref.actor.clip_ratio_c
actor_rollout_ref.actor.clip_ratio_high
actor_rollout_ref.actor.clip_ratio_low
actor_rollout_ref.actor.entropy_checkpointing
actor_rollout_ref.actor.entropy_coeff
actor_rollout_ref.actor.entropy_from_logits_with_chunking
actor_rollout_ref.actor.fsdp_config.dtype
actor_rollout_ref.actor.fsdp_config.fsdp_size
actor_rollout_ref.actor.fsdp_config.full_determinism
actor_rollout_ref.actor.fsdp_config.model_dtype
actor_rollout_ref.actor.fsdp_config.offload_policy
actor_rollout_ref.actor.fsdp_config.optimizer_offload
actor_rollout_ref.actor.fsdp_config.param_offload
actor_rollout_ref.actor.fsdp_config.reshard_after_forward
actor_rollout_ref.actor.fsdp_config.use_no_sync_for_gradient_accumulation
actor_rollout_ref.actor.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap
actor_rollout_ref.actor.grad_clip
actor_rollout_ref.actor.kl_loss_coef
actor_rollout_ref.actor.kl_loss_type
actor_rollout_ref.actor.loss_agg_mode
actor_rollout_ref.actor.loss_scale_factor
actor_rollout_ref.actor.optim.betas
actor_rollout_ref.actor.optim.lr
actor_rollout_ref.actor.optim.lr_scheduler_type
actor_rollout_ref.actor.optim.lr_warmup_steps
actor_rollout_ref.actor.optim.lr_warmup_steps_ratio
actor_rollout_ref.actor.optim.min_lr_ratio
actor_rollout_ref.actor.optim.num_cycles
actor_rollout_ref.actor.optim.optimizer
actor_rollout_ref.actor.optim.optimizer_impl
actor_rollout_ref.actor.optim.override_optimizer_config
actor_rollout_ref.actor.optim.weight_decay
actor_rollout_ref.actor.policy_loss.clip_cov_lb
actor_rollout_ref.actor.policy_loss.clip_cov_ratio
actor_rollout_ref.actor.policy_loss.clip_cov_ub
actor_rollout_ref.actor.policy_loss.dro_beta
actor_rollout_ref.actor.policy_loss.kl_cov_ratio
actor_rollout_ref.actor.policy_loss.loss_mode
actor_rollout_ref.actor.policy_loss.ppo_kl_coef
actor_rollout_ref.actor.ppo_epochs
actor_rollout_ref.actor.ppo_max_token_len_per_gpu
actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu
actor_rollout_ref.actor.ppo_mini_batch_size
actor_rollout_ref.actor.strategy
actor_rollout_ref.actor.tau_neg
actor_rollout_ref.actor.tau_pos
actor_rollout_ref.actor.ulysses_sequence_parallel_size
actor_rollout_ref.actor.use_dynamic_bsz
actor_rollout_ref.actor.use_kl_loss
actor_rollout_ref.actor.use_torch_compile
actor_rollout_ref.model.custom_chat_template
actor_rollout_ref.model.enable_gradient_checkpointing
actor_rollout_ref.model.exclude_modules
actor_rollout_ref.model.external_lib
actor_rollout_ref.model.lora.merge
actor_rollout_ref.model.lora_adapter_path
actor_rollout_ref.model.lora_alpha
actor_rollout_ref.model.lora_rank
actor_rollout_ref.model.override_config.attn_implementation
actor_rollout_ref.model.path
actor_rollout_ref.model.target_modules
actor_rollout_ref.model.trust_remote_code
actor_rollout_ref.model.use_remove_padding
actor_rollout_ref.nccl_timeout
actor_rollout_ref.ref.entropy_checkpointing
actor_rollout_ref.ref.entropy_from_logits_with_chunking
actor_rollout_ref.ref.fsdp_config.dtype
actor_rollout_ref.ref.fsdp_config.fsdp_size
actor_rollout_ref.ref.fsdp_config.model_dtype
actor_rollout_ref.ref.fsdp_config.offload_policy
actor_rollout_ref.ref.fsdp_config.param_offload
actor_rollout_ref.ref.fsdp_config.reshard_after_forward
actor_rollout_ref.ref.fsdp_config.use_no_sync_for_gradient_accumulation
actor_rollout_ref.ref.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap
actor_rollout_ref.ref.log_prob_max_token_len_per_gpu
actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu
actor_rollout_ref.ref.log_prob_use_dynamic_bsz
actor_rollout_ref.ref.model
actor_rollout_ref.ref.ulysses_sequence_parallel_size
actor_rollout_ref.ref.use_torch_compile
actor_rollout_ref.rollout.calculate_log_probs
actor_rollout_ref.rollout.disable_log_stats
actor_rollout_ref.rollout.do_sample
actor_rollout_ref.rollout.dtype
actor_rollout_ref.rollout.enable_chunked_prefill
actor_rollout_ref.rollout.enable_prefix_caching
actor_rollout_ref.rollout.enforce_eager
actor_rollout_ref.rollout.engine_kwargs.vllm
actor_rollout_ref.rollout.free_cache_engine
actor_rollout_ref.rollout.gpu_memory_utilization
actor_rollout_ref.rollout.ignore_eos
actor_rollout_ref.rollout.load_format
actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu
actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu
actor_rollout_ref.rollout.log_prob_use_dynamic_bsz
actor_rollout_ref.rollout.max_model_len
actor_rollout_ref.rollout.max_num_batched_tokens
actor_rollout_ref.rollout.max_num_seqs
actor_rollout_ref.rollout.min_p
actor_rollout_ref.rollout.mode
actor_rollout_ref.rollout.multi_turn.enable
actor_rollout_ref.rollout.multi_turn.max_assistant_turns
actor_rollout_ref.rollout.multi_turn.max_user_turns
actor_rollout_ref.rollout.n
actor_rollout_ref.rollout.name
actor_rollout_ref.rollout.prompt_length
actor_rollout_ref.rollout.repetition_penalty
actor_rollout_ref.rollout.response_length
actor_rollout_ref.rollout.temperature
actor_rollout_ref.rollout.tensor_model_parallel_size
actor_rollout_ref.rollout.top_k
actor_rollout_ref.rollout.top_p
actor_rollout_ref.rollout.val_kwargs.do_sample
actor_rollout_ref.rollout.val_kwargs.min_p
actor_rollout_ref.rollout.val_kwargs.n
actor_rollout_ref.rollout.val_kwargs.repetition_penalty
actor_rollout_ref.rollout.val_kwargs.temperature
actor_rollout_ref.rollout.val_kwargs.top_k
actor_rollout_ref.rollout.val_kwargs.top_p
algorithm.adv_estimator
algorithm.filter_groups.enable
algorithm.filter_groups.max_num_gen_batches
algorithm.filter_groups.metric
algorithm.gamma
algorithm.gdpo_reward_keys
algorithm.gdpo_reward_weights
algorithm.kl_ctrl.horizon
algorithm.kl_ctrl.kl_coef
algorithm.kl_ctrl.target_kl
algorithm.kl_ctrl.type
algorithm.kl_penalty
algorithm.lam
algorithm.norm_adv_by_std_in_grpo
algorithm.pf_ppo.reweight_method
algorithm.pf_ppo.weight_pow
algorithm.use_kl_in_reward
algorithm.use_pf_ppo
data.apply_chat_template_kwargs
data.cache_dir
data.custom_cls.name
data.custom_cls.path
data.dataloader_num_workers
data.env.max_turns
data.env.seed
data.env.task
data.env.val_size
data.filter_overlong_prompts
data.filter_overlong_prompts_workers
data.gen_batch_size
data.max_prompt_length
data.max_response_length
data.prompt_key
data.return_full_prompt
data.return_raw_chat
data.reward_fn_key
data.seed
data.shuffle
data.train_batch_size
data.train_files
data.train_max_samples
data.truncation
data.trust_remote_code
data.val_batch_size
data.val_files
data.val_max_samples
data.validation_shuffle
distillation.distillation_loss.log_prob_min_clamp
distillation.distillation_loss.loss_max_clamp
distillation.distillation_loss.loss_mode
distillation.distillation_loss.use_policy_gradient
distillation.distillation_loss.use_task_rewards
distillation.enabled
local.check_base_models
local.check_digests
local.checkpoint.asynchronous
local.checkpoint.begin_from
local.checkpoint.sharded
local.device
local.devices.policy
local.devices.reference
local.devices.reference_map
local.devices.rollout
local.dtype
local.early_stopping.lower_is_better
local.early_stopping.metric
local.early_stopping.min_delta
local.early_stopping.patience
local.env.concurrency
local.env.error_reward
local.env.is_reward
local.env.mask_errors
local.env.max_error_share
local.env.max_turn_tokens
local.env.observations
local.env.reward_at
local.env.threads
local.env.timeout
local.env.turn_by_turn
local.gradient_accumulation_steps
local.keep_freed_memory
local.keep_special_tokens
local.log_train_generations
local.max_logits_mb
local.num_threads
local.peer_timeout
local.prime.enable
local.quantization.bnb_4bit_quant_type
local.quantization.bnb_4bit_use_double_quant
local.quantization.load_in_4bit
local.recompute_old_log_probs
local.reward.alarm.checks
local.reward.alarm.length_ratio
local.reward.alarm.window
local.reward.concurrency
local.reward.debug_log
local.reward.debug_samples
local.reward.early
local.reward.in_background
local.reward.log_dir
local.reward.log_every
local.reward.log_samples
local.reward.num_workers
local.reward.timeout
local.reward.timeout_score
local.reward_model.input_tokenizer
local.reward_model.max_length
local.reward_model.micro_batch_size_per_gpu
local.reward_model.param_offload
local.reward_model.trust_remote_code
local.rollout.ahead
local.rollout.mismatch.enable
local.rollout.mismatch.every
local.rollout.mismatch.responses
local.rollout.mismatch.threshold
local.rollout_micro_batch_size
local.save_last
local.seed
reward.custom_reward_function.name
reward.custom_reward_function.path
reward.custom_reward_function.reward_kwargs
reward.reward_kwargs.max_resp_len
reward.reward_kwargs.overlong_buffer_cfg.enable
reward.reward_kwargs.overlong_buffer_cfg.len
reward.reward_kwargs.overlong_buffer_cfg.log
reward.reward_kwargs.overlong_buffer_cfg.penalty_factor
reward.reward_manager.module.name
reward.reward_manager.module.path
reward.reward_manager.name
reward.reward_manager.source
reward.reward_model.enable
reward.reward_model.model_path
reward.sandbox_fusion.max_concurrent
reward.sandbox_fusion.memory_limit_mb
reward.sandbox_fusion.url
trainer.balance_batch
trainer.critic_warmup
trainer.default_local_dir
trainer.experiment_name
trainer.log_val_generations
trainer.logger
trainer.max_actor_ckpt_to_keep
trainer.project_name
trainer.resume_from_path
trainer.resume_mode
trainer.rollout_data_dir
trainer.save_freq
trainer.test_freq
trainer.total_epochs
trainer.total_training_steps
trainer.val_before_train
trainer.val_only
trainer.validation_data_dir
""".split()
)
