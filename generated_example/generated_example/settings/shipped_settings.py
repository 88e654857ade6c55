# vextract:template settings/__package__/settings/shipped_settings.py.jinja - made anew by every upgrade
"""What the config of this project had when it was made, for the checks at the start of a run."""

from .setting import Setting

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

# Whether seq-mean-token-sum-norm adds the responses of a pass up, as upstream's up to 0.7.0 does, and takes no mean.
SUMS_RESPONSES = False
# Whether a loss is the mean of the means of its passes, as upstream's is up to 0.7.1.
MEANS_OF_PASSES = False
# The responses per pass that its config files give.
PASS_SIZES = (8, 512)

# The names that a setting can choose: those that the code registers.
REGISTERED: dict[str, tuple[str, ...]] = {
    "algorithm.adv_estimator": (
        "gae",
        "gdpo",
        "gpg",
        "group_rank",
        "grpo",
        "grpo_passk",
        "grpo_vectorized",
        "opo",
        "optimal_token_baseline",
        "reinforce_plus_plus",
        "reinforce_plus_plus_baseline",
        "remax",
        "rloo",
        "rloo_vectorized",
        "tir_optimal_token_baseline",
    ),
    "actor_rollout_ref.actor.policy_loss.loss_mode": (
        "cispo",
        "clip_cov",
        "dppo_kl",
        "dppo_tv",
        "dro",
        "geo_mean",
        "gpg",
        "gspo",
        "kl_cov",
        "sapo",
        "spo",
        "vanilla",
    ),
    "reward.reward_manager.name": ("env", "naive"),
}
# The settings that each of verl's estimators and losses reads, of those that not all of them read.
READS: dict[str, dict[str, tuple[str, ...]]] = {
    "algorithm.adv_estimator": {
        "gae": ("gamma", "lam"),
        "gdpo": ("gdpo_reward_keys", "gdpo_reward_weights", "norm_adv_by_std_in_grpo"),
        "gpg": (),
        "grpo": ("norm_adv_by_std_in_grpo",),
        "grpo_passk": ("norm_adv_by_std_in_grpo",),
        "grpo_vectorized": ("norm_adv_by_std_in_grpo",),
        "opo": (),
        "optimal_token_baseline": (),
        "reinforce_plus_plus": ("gamma",),
        "reinforce_plus_plus_baseline": (),
        "remax": (),
        "rloo": (),
        "rloo_vectorized": (),
        "tir_optimal_token_baseline": (),
    },
    "actor_rollout_ref.actor.policy_loss.loss_mode": {
        "cispo": ("clip_ratio", "clip_ratio_high", "clip_ratio_low"),
        "clip_cov": ("clip_cov_lb", "clip_cov_ratio", "clip_cov_ub", "clip_ratio", "clip_ratio_high", "clip_ratio_low"),
        "dppo_kl": ("clip_ratio", "clip_ratio_c", "clip_ratio_high", "clip_ratio_low"),
        "dppo_tv": ("clip_ratio", "clip_ratio_c", "clip_ratio_high", "clip_ratio_low"),
        "dro": ("dro_beta",),
        "geo_mean": ("clip_ratio", "clip_ratio_high", "clip_ratio_low"),
        "gpg": (),
        "gspo": ("clip_ratio", "clip_ratio_high", "clip_ratio_low"),
        "kl_cov": ("kl_cov_ratio", "ppo_kl_coef"),
        "sapo": ("tau_neg", "tau_pos"),
        "vanilla": ("clip_ratio", "clip_ratio_c", "clip_ratio_high", "clip_ratio_low"),
    },
}

# What settings were called in earlier releases of verl. A section stands for all that is in it.
FORMER_KEYS: dict[str, str] = {
    "actor_rollout_ref.actor.optim.warmup_style": "actor_rollout_ref.actor.optim.lr_scheduler_type",
    "actor_rollout_ref.rollout.skip_dump_dir": "actor_rollout_ref.rollout.skip.dump_dir",
    "actor_rollout_ref.rollout.skip_rollout": "actor_rollout_ref.rollout.skip.enable",
    "actor_rollout_ref.rollout.update_weights_bucket_megabytes": (
        "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
    ),
    "critic.model.fsdp_config": "critic.fsdp",
    "critic.optim.warmup_style": "critic.optim.lr_scheduler_type",
    "critic.profiler.discrete": "critic.profiler.tool_config.nsys.discrete",
    "custom_reward_function": "reward.custom_reward_function",
    "ray_init": "ray_kwargs.ray_init",
    "ray_init.timeline_json_file": "ray_kwargs.timeline_json_file",
    "reward_manager.module": "reward.reward_manager.module",
    "reward_manager.name": "reward.reward_manager.name",
    "reward_manager.source": "reward.reward_manager.source",
    "reward_model.enable": "reward.reward_model.enable",
    "reward_model.enable_resource_pool": "reward.reward_model.enable_resource_pool",
    "reward_model.launch_reward_fn_async": "local.reward.in_background",
    "reward_model.max_length": "local.reward_model.max_length",
    "reward_model.micro_batch_size_per_gpu": "local.reward_model.micro_batch_size_per_gpu",
    "reward_model.model.fsdp_config.param_offload": "local.reward_model.param_offload",
    "reward_model.model.input_tokenizer": "local.reward_model.input_tokenizer",
    "reward_model.model.path": "reward.reward_model.model_path",
    "reward_model.model.trust_remote_code": "local.reward_model.trust_remote_code",
    "reward_model.n_gpus_per_node": "reward.reward_model.n_gpus_per_node",
    "reward_model.nnodes": "reward.reward_model.nnodes",
    "reward_model.num_workers": "reward.num_workers",
    "reward_model.overlong_buffer": "reward.reward_kwargs.overlong_buffer_cfg",
    "reward_model.reward_kwargs": "reward.reward_kwargs",
    "reward_model.reward_manager": "reward.reward_manager.name",
    "reward_model.rollout": "reward.reward_model.rollout",
    "reward_model.sandbox_fusion": "reward.sandbox_fusion",
    "trainer.controller_nsight_options": "global_profiler.global_tool_config.nsys.controller_nsight_options",
    "trainer.profile_steps": "global_profiler.steps",
    "trainer.worker_nsight_options": "global_profiler.global_tool_config.nsys.worker_nsight_options",
}

# What settings are called elsewhere, in TRL and in scripts.
ALIASES: dict[str, str] = {
    "batch_size": "data.train_batch_size",
    "beta": "actor_rollout_ref.actor.kl_loss_coef",
    "clip_range": "actor_rollout_ref.actor.clip_ratio",
    "data": "data.train_files",
    "dataset": "data.train_files",
    "epochs": "trainer.total_epochs",
    "epsilon": "actor_rollout_ref.actor.clip_ratio",
    "eval_files": "data.val_files",
    "eval_steps": "trainer.test_freq",
    "group_size": "actor_rollout_ref.rollout.n",
    "kl_coef": "actor_rollout_ref.actor.kl_loss_coef",
    "learning_rate": "actor_rollout_ref.actor.optim.lr",
    "lr": "actor_rollout_ref.actor.optim.lr",
    "max_completion_length": "data.max_response_length",
    "max_grad_norm": "actor_rollout_ref.actor.grad_clip",
    "max_new_tokens": "data.max_response_length",
    "max_steps": "trainer.total_training_steps",
    "max_tokens": "data.max_response_length",
    "mini_batch_size": "actor_rollout_ref.actor.ppo_mini_batch_size",
    "model": "actor_rollout_ref.model.path",
    "model_name": "actor_rollout_ref.model.path",
    "model_name_or_path": "actor_rollout_ref.model.path",
    "model_path": "actor_rollout_ref.model.path",
    "num_epochs": "trainer.total_epochs",
    "num_generations": "actor_rollout_ref.rollout.n",
    "num_train_epochs": "trainer.total_epochs",
    "output_dir": "trainer.default_local_dir",
    "per_device_train_batch_size": "data.train_batch_size",
    "report_to": "trainer.logger",
    "run_name": "trainer.experiment_name",
    "save_steps": "trainer.save_freq",
    "steps": "trainer.total_training_steps",
    "warmup_ratio": "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio",
    "warmup_steps": "actor_rollout_ref.actor.optim.lr_warmup_steps",
}

# What is known of settings and sections beside their defaults.
SCHEMA: dict[str, Setting] = {
    "actor_rollout_ref.actor.clip_ratio": Setting(range="0 or more"),
    "actor_rollout_ref.actor.clip_ratio_high": Setting(null_or=(float,), range="0 or more"),
    "actor_rollout_ref.actor.clip_ratio_low": Setting(null_or=(float,), range="0 or more"),
    "actor_rollout_ref.actor.fsdp_config.offload_policy": Setting(needs="offload", without=False),
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload": Setting(needs="offload", without=False),
    "actor_rollout_ref.actor.fsdp_config.param_offload": Setting(needs="offload", without=False),
    "actor_rollout_ref.actor.grad_clip": Setting(
        range="more than 0",
        hint="gradients are scaled down to this norm; 1e9 leaves them as they are",
    ),
    "actor_rollout_ref.actor.kl_loss_coef": Setting(only_with=("actor_rollout_ref.actor.use_kl_loss=true",)),
    "actor_rollout_ref.actor.kl_loss_type": Setting(
        values=(
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
        ),
        only_with=("actor_rollout_ref.actor.use_kl_loss=true",),
        is_compared=True,
    ),
    "actor_rollout_ref.actor.loss_agg_mode": Setting(
        values=("seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm", "token-mean", "token-sum"),
        is_compared=True,
    ),
    "actor_rollout_ref.actor.loss_scale_factor": Setting(
        only_with=("actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm",),
    ),
    "actor_rollout_ref.actor.optim.lr": Setting(range="0 or more"),
    "actor_rollout_ref.actor.optim.lr_scheduler_type": Setting(values=("constant", "cosine")),
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio": Setting(
        range="from 0 to 1",
        only_with=("actor_rollout_ref.actor.optim.lr_warmup_steps=-1",),
    ),
    "actor_rollout_ref.actor.optim.min_lr_ratio": Setting(
        only_with=("actor_rollout_ref.actor.optim.lr_scheduler_type=cosine",),
    ),
    "actor_rollout_ref.actor.optim.num_cycles": Setting(
        only_with=("actor_rollout_ref.actor.optim.lr_scheduler_type=cosine",),
    ),
    "actor_rollout_ref.actor.ppo_epochs": Setting(range="at least 1"),
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": Setting(
        range="at least 1",
        only_with=("actor_rollout_ref.actor.use_dynamic_bsz=true",),
    ),
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": Setting(
        range="at least 1",
        only_with=("actor_rollout_ref.actor.use_dynamic_bsz=false",),
    ),
    "actor_rollout_ref.actor.ppo_mini_batch_size": Setting(range="at least 1"),
    "actor_rollout_ref.actor.strategy": Setting(values=("fsdp2",)),
    "actor_rollout_ref.actor.use_dynamic_bsz": Setting(needs="dynamic_bsz", without=False),
    "actor_rollout_ref.model.custom_chat_template": Setting(null_or=(str,)),
    "actor_rollout_ref.model.exclude_modules": Setting(
        null_or=(str, list),
        only_with=("actor_rollout_ref.model.lora_rank=!0",),
        unread=(None,),
        readers="feature lora",
    ),
    "actor_rollout_ref.model.external_lib": Setting(null_or=(str,)),
    "actor_rollout_ref.model.lora.merge": Setting(only_with=("actor_rollout_ref.model.lora_rank=!0",)),
    "actor_rollout_ref.model.lora_adapter_path": Setting(null_or=(str,), needs="lora"),
    "actor_rollout_ref.model.lora_alpha": Setting(
        only_with=("actor_rollout_ref.model.lora_rank=!0",),
        unread=(16,),
        readers="feature lora, feature verl_checkpoints",
    ),
    "actor_rollout_ref.model.lora_rank": Setting(needs="lora", without=0),
    "actor_rollout_ref.model.path": Setting(null_or=(str,)),
    "actor_rollout_ref.model.target_modules": Setting(
        null_or=(str, list),
        only_with=("actor_rollout_ref.model.lora_rank=!0",),
        unread=("all-linear",),
        readers="feature lora, feature verl_checkpoints",
    ),
    "actor_rollout_ref.model.use_remove_padding": Setting(needs="remove_padding", without=False),
    "actor_rollout_ref.nccl_timeout": Setting(range="more than 0"),
    "actor_rollout_ref.ref.fsdp_config.offload_policy": Setting(needs="offload", without=False),
    "actor_rollout_ref.ref.fsdp_config.param_offload": Setting(needs="offload", without=False),
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu": Setting(
        only_with=("actor_rollout_ref.ref.log_prob_use_dynamic_bsz=true",),
    ),
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": Setting(
        range="at least 1",
        only_with=("actor_rollout_ref.ref.log_prob_use_dynamic_bsz=false",),
    ),
    "actor_rollout_ref.ref.log_prob_use_dynamic_bsz": Setting(needs="dynamic_bsz", without=False),
    "actor_rollout_ref.rollout.disable_log_stats": Setting(unread=(True,), readers="engine vllm"),
    "actor_rollout_ref.rollout.enable_chunked_prefill": Setting(unread=(True,), readers="engine vllm"),
    "actor_rollout_ref.rollout.enable_prefix_caching": Setting(unread=(True,), readers="engine sglang, engine vllm"),
    "actor_rollout_ref.rollout.enforce_eager": Setting(unread=(False,), readers="engine sglang, engine vllm"),
    "actor_rollout_ref.rollout.free_cache_engine": Setting(unread=(True,), readers="engine sglang, engine vllm"),
    "actor_rollout_ref.rollout.gpu_memory_utilization": Setting(unread=(0.5,), readers="engine sglang, engine vllm"),
    "actor_rollout_ref.rollout.ignore_eos": Setting(unread=(False,), readers="engine sglang, engine vllm"),
    "actor_rollout_ref.rollout.load_format": Setting(
        unread=("dummy",),
        readers="engine sglang, engine vllm, feature sharded_checkpoints",
    ),
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": Setting(
        only_with=("actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=true",),
    ),
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": Setting(
        range="at least 1",
        only_with=("actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=false",),
    ),
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": Setting(needs="dynamic_bsz", without=False),
    "actor_rollout_ref.rollout.max_model_len": Setting(
        null_or=(int,),
        unread=(None,),
        readers="engine sglang, engine vllm, feature distillation",
    ),
    "actor_rollout_ref.rollout.max_num_batched_tokens": Setting(unread=(8192,), readers="engine vllm"),
    "actor_rollout_ref.rollout.max_num_seqs": Setting(unread=(1024,), readers="engine sglang, engine vllm"),
    "actor_rollout_ref.rollout.min_p": Setting(
        range="from 0 to 1",
        only_with=("actor_rollout_ref.rollout.do_sample=true",),
    ),
    "actor_rollout_ref.rollout.mode": Setting(values=("sync",)),
    "actor_rollout_ref.rollout.n": Setting(range="at least 1"),
    "actor_rollout_ref.rollout.name": Setting(values=("hf",)),
    "actor_rollout_ref.rollout.repetition_penalty": Setting(range="more than 0"),
    "actor_rollout_ref.rollout.response_length": Setting(range="at least 1"),
    "actor_rollout_ref.rollout.temperature": Setting(
        range="more than 0",
        hint="for the likeliest tokens: actor_rollout_ref.rollout.do_sample=false",
        only_with=("actor_rollout_ref.rollout.do_sample=true",),
    ),
    "actor_rollout_ref.rollout.tensor_model_parallel_size": Setting(
        range="at least 1",
        unread=(1,),
        readers="engine sglang, engine vllm",
    ),
    "actor_rollout_ref.rollout.top_k": Setting(
        range="at least -1, for all tokens",
        only_with=("actor_rollout_ref.rollout.do_sample=true",),
    ),
    "actor_rollout_ref.rollout.top_p": Setting(
        range="more than 0 and at most 1",
        only_with=("actor_rollout_ref.rollout.do_sample=true",),
    ),
    "actor_rollout_ref.rollout.val_kwargs.min_p": Setting(
        range="from 0 to 1",
        only_with=("actor_rollout_ref.rollout.val_kwargs.do_sample=true",),
    ),
    "actor_rollout_ref.rollout.val_kwargs.n": Setting(range="at least 1"),
    "actor_rollout_ref.rollout.val_kwargs.repetition_penalty": Setting(range="more than 0"),
    "actor_rollout_ref.rollout.val_kwargs.temperature": Setting(
        range="0 or more",
        only_with=("actor_rollout_ref.rollout.val_kwargs.do_sample=true",),
    ),
    "actor_rollout_ref.rollout.val_kwargs.top_k": Setting(
        range="at least -1, for all tokens",
        only_with=("actor_rollout_ref.rollout.val_kwargs.do_sample=true",),
    ),
    "actor_rollout_ref.rollout.val_kwargs.top_p": Setting(
        range="more than 0 and at most 1",
        only_with=("actor_rollout_ref.rollout.val_kwargs.do_sample=true",),
    ),
    "algorithm.gamma": Setting(range="from 0 to 1"),
    "algorithm.kl_ctrl": Setting(only_with=("algorithm.use_kl_in_reward=true",)),
    "algorithm.kl_ctrl.horizon": Setting(only_with=("algorithm.kl_ctrl.type=adaptive",)),
    "algorithm.kl_ctrl.target_kl": Setting(only_with=("algorithm.kl_ctrl.type=adaptive",)),
    "algorithm.kl_ctrl.type": Setting(values=("fixed", "adaptive")),
    "algorithm.kl_penalty": Setting(
        values=(
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
        ),
        only_with=("algorithm.use_kl_in_reward=true",),
        is_compared=True,
    ),
    "algorithm.lam": Setting(range="from 0 to 1", only_with=("algorithm.adv_estimator=gae",)),
    "algorithm.pf_ppo": Setting(only_with=("algorithm.use_pf_ppo=true",)),
    "data.cache_dir": Setting(null_or=(str,)),
    "data.custom_cls.name": Setting(null_or=(str,), only_with=("data.custom_cls.path=!null",)),
    "data.custom_cls.path": Setting(null_or=(str,)),
    "data.dataloader_num_workers": Setting(range="0 or more"),
    "data.filter_overlong_prompts_workers": Setting(only_with=("data.filter_overlong_prompts=true",)),
    "data.max_prompt_length": Setting(range="at least 1"),
    "data.max_response_length": Setting(range="at least 1"),
    "data.seed": Setting(null_or=(int,), range="from 0 to 2^63 - 1", only_with=("data.shuffle=true",)),
    "data.train_batch_size": Setting(range="at least 1"),
    "data.train_files": Setting(null_or=(str, list)),
    "data.train_max_samples": Setting(range="at least 1, or -1 for all rows"),
    "data.truncation": Setting(values=("error", "left", "right", "middle")),
    "data.val_batch_size": Setting(null_or=(int,), range="at least 1"),
    "data.val_files": Setting(null_or=(str, list)),
    "data.val_max_samples": Setting(range="at least 1, or -1 for all rows"),
    "local.checkpoint.begin_from": Setting(null_or=(str,)),
    "local.device": Setting(null_or=(str,), values=("cpu", "cuda", None)),
    "local.dtype": Setting(null_or=(str,), values=("float32", "bfloat16", "float16", None)),
    "local.gradient_accumulation_steps": Setting(null_or=(int,), range="at least 1"),
    "local.keep_freed_memory": Setting(null_or=(bool,)),
    "local.log_train_generations": Setting(range="0 or more"),
    "local.max_logits_mb": Setting(null_or=(float, str), range="more than 0"),
    "local.num_threads": Setting(null_or=(int,), range="at least 1"),
    "local.peer_timeout": Setting(range="0 or more"),
    "local.quantization.bnb_4bit_quant_type": Setting(
        values=("nf4", "fp4"),
        only_with=("local.quantization.load_in_4bit=true",),
        unread=("nf4",),
        readers="feature qlora",
    ),
    "local.quantization.bnb_4bit_use_double_quant": Setting(
        only_with=("local.quantization.load_in_4bit=true",),
        unread=(True,),
        readers="feature qlora",
    ),
    "local.quantization.load_in_4bit": Setting(unread=(False,), readers="feature qlora"),
    "local.recompute_old_log_probs": Setting(null_or=(bool,)),
    "local.reward.alarm.checks": Setting(only_with=("local.reward.alarm.window=!0",)),
    "local.reward.alarm.length_ratio": Setting(range="more than 0", only_with=("local.reward.alarm.window=!0",)),
    "local.reward.alarm.window": Setting(range="0 or more"),
    "local.reward.concurrency": Setting(range="at least 1"),
    "local.reward.debug_log": Setting(null_or=(str,)),
    "local.reward.debug_samples": Setting(range="0 or more", only_with=("local.reward.debug_log=!null",)),
    "local.reward.log_dir": Setting(null_or=(str,)),
    "local.reward.log_every": Setting(only_with=("local.reward.log_dir=!null",)),
    "local.reward.log_samples": Setting(only_with=("local.reward.log_dir=!null",)),
    "local.reward.num_workers": Setting(range="0 or more"),
    "local.reward.timeout": Setting(null_or=(float,), range="more than 0"),
    "local.reward.timeout_score": Setting(
        only_with=("local.reward.timeout=!null",),
        still_with="local.reward.num_workers=!0",
    ),
    "local.rollout_micro_batch_size": Setting(null_or=(int,), range="at least 1"),
    "local.seed": Setting(range="from 0 to 2^63 - 1"),
    "reward.custom_reward_function.name": Setting(only_with=("reward.custom_reward_function.path=!null",)),
    "reward.custom_reward_function.path": Setting(null_or=(str,)),
    "reward.custom_reward_function.reward_kwargs": Setting(only_with=("reward.custom_reward_function.path=!null",)),
    "reward.reward_manager.module": Setting(only_with=("reward.reward_manager.source=importlib",)),
    "reward.reward_manager.module.path": Setting(null_or=(str,)),
    "reward.sandbox_fusion.url": Setting(null_or=(str,)),
    "trainer.balance_batch": Setting(
        needs="dynamic_bsz",
        without=False,
        unread=(False,),
        readers="feature dynamic_bsz",
    ),
    "trainer.log_val_generations": Setting(range="0 or more"),
    "trainer.logger": Setting(null_or=(list, str)),
    "trainer.max_actor_ckpt_to_keep": Setting(null_or=(int,)),
    "trainer.resume_from_path": Setting(null_or=(str,), only_with=("trainer.resume_mode=resume_path",)),
    "trainer.resume_mode": Setting(values=("auto", "disable", "resume_path")),
    "trainer.rollout_data_dir": Setting(null_or=(str,)),
    "trainer.total_epochs": Setting(range="at least 1", only_with=("trainer.total_training_steps=null",)),
    "trainer.total_training_steps": Setting(null_or=(int,), range="at least 1"),
    "trainer.validation_data_dir": Setting(null_or=(str,)),
}

# All settings, by section.
SETTINGS = frozenset(
    f"{section}.{name}".lstrip(".")
    for section, _, names in (
        line.partition(": ")
        for line in """
actor_rollout_ref: nccl_timeout
actor_rollout_ref.actor: calculate_entropy calculate_sum_pi_squared clip_ratio clip_ratio_c clip_ratio_high
  clip_ratio_low entropy_checkpointing entropy_coeff entropy_from_logits_with_chunking grad_clip kl_loss_coef
  kl_loss_type loss_agg_mode loss_scale_factor ppo_epochs ppo_max_token_len_per_gpu ppo_micro_batch_size_per_gpu
  ppo_mini_batch_size strategy tau_neg tau_pos ulysses_sequence_parallel_size use_dynamic_bsz use_kl_loss
  use_torch_compile
actor_rollout_ref.actor.fsdp_config: dtype fsdp_size full_determinism model_dtype offload_policy optimizer_offload
  param_offload reshard_after_forward use_no_sync_for_gradient_accumulation
actor_rollout_ref.actor.fsdp_config.wrap_policy: transformer_layer_cls_to_wrap
actor_rollout_ref.actor.optim: betas lr lr_scheduler_type lr_warmup_steps lr_warmup_steps_ratio min_lr_ratio num_cycles
  optimizer optimizer_impl override_optimizer_config weight_decay
actor_rollout_ref.actor.policy_loss: clip_cov_lb clip_cov_ratio clip_cov_ub dro_beta kl_cov_ratio loss_mode ppo_kl_coef
actor_rollout_ref.model: custom_chat_template enable_gradient_checkpointing exclude_modules external_lib
  lora_adapter_path lora_alpha lora_rank path target_modules trust_remote_code use_remove_padding
actor_rollout_ref.model.lora: merge
actor_rollout_ref.model.override_config: attn_implementation
actor_rollout_ref.ref: entropy_checkpointing entropy_from_logits_with_chunking log_prob_max_token_len_per_gpu
  log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz model ulysses_sequence_parallel_size use_torch_compile
actor_rollout_ref.ref.fsdp_config: dtype fsdp_size model_dtype offload_policy param_offload reshard_after_forward
  use_no_sync_for_gradient_accumulation
actor_rollout_ref.ref.fsdp_config.wrap_policy: transformer_layer_cls_to_wrap
actor_rollout_ref.rollout: calculate_log_probs disable_log_stats do_sample dtype enable_chunked_prefill
  enable_prefix_caching enforce_eager free_cache_engine gpu_memory_utilization ignore_eos load_format
  log_prob_max_token_len_per_gpu log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz max_model_len
  max_num_batched_tokens max_num_seqs min_p mode n name prompt_length repetition_penalty response_length temperature
  tensor_model_parallel_size top_k top_p
actor_rollout_ref.rollout.engine_kwargs: vllm
actor_rollout_ref.rollout.val_kwargs: do_sample min_p n repetition_penalty temperature top_k top_p
algorithm: adv_estimator gamma gdpo_reward_keys gdpo_reward_weights kl_penalty lam norm_adv_by_std_in_grpo
  use_kl_in_reward use_pf_ppo
algorithm.kl_ctrl: horizon kl_coef target_kl type
algorithm.pf_ppo: reweight_method weight_pow
data: apply_chat_template_kwargs cache_dir dataloader_num_workers filter_overlong_prompts
  filter_overlong_prompts_workers max_prompt_length max_response_length prompt_key return_full_prompt return_raw_chat
  reward_fn_key seed shuffle train_batch_size train_files train_max_samples truncation trust_remote_code val_batch_size
  val_files val_max_samples validation_shuffle
data.custom_cls: name path
data.env: seed task val_size
local: check_base_models check_digests device dtype gradient_accumulation_steps keep_freed_memory keep_special_tokens
  log_train_generations max_logits_mb num_threads peer_timeout recompute_old_log_probs rollout_micro_batch_size
  save_last seed
local.checkpoint: begin_from
local.quantization: bnb_4bit_quant_type bnb_4bit_use_double_quant load_in_4bit
local.reward: concurrency debug_log debug_samples in_background log_dir log_every log_samples num_workers timeout
  timeout_score
local.reward.alarm: checks length_ratio window
reward.custom_reward_function: name path reward_kwargs
reward.reward_kwargs: max_resp_len
reward.reward_kwargs.overlong_buffer_cfg: enable len log penalty_factor
reward.reward_manager: name source
reward.reward_manager.module: name path
reward.sandbox_fusion: max_concurrent memory_limit_mb url
trainer: balance_batch default_local_dir experiment_name log_val_generations logger max_actor_ckpt_to_keep project_name
  resume_from_path resume_mode rollout_data_dir save_freq test_freq total_epochs total_training_steps val_before_train
  val_only validation_data_dir
""".replace("\n  ", " ").splitlines()
    )
    for name in names.split()
)
