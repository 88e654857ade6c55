# vextract:template base/__package__/settings/former_keys.py.jinja - edit freely
"""What settings were called in earlier releases of verl, so that an old name is answered with the new one."""

from collections.abc import Container

# A section stands for all that is in it.
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


def present_name(key: str, known: Container[str]) -> str | None:
    """Return the present name of a setting with a former one; None where it had no other, or that is unknown too."""
    parts = key.split(".")
    for end in range(len(parts), 0, -1):
        new = FORMER_KEYS.get(".".join(parts[:end]))
        if new is not None:
            return ".".join([new, *parts[end:]]) if new in known else None
    return None
