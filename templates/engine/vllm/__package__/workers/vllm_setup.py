# vextract:template - edit freely; upgrades merge your edits
"""From the project's config to what the vendored vLLM rollout takes in this release of verl."""

from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf

from ..training.config_loading import ConfigError
from ..training.distributed import Ranks
from ..utils.device import get_device_name
from .config.model import HFModelConfig
from .config.rollout import RolloutConfig, SamplingConfig


def vllm_settings(config: Any, ranks: Ranks) -> dict[str, Any]:
    """The `rollout` section for this process and its device."""
    node: dict[str, Any] = OmegaConf.to_container(config.actor_rollout_ref.rollout, resolve=True)  # type: ignore[assignment]
    if node["tensor_model_parallel_size"] > 1:
        raise ConfigError(
            "actor_rollout_ref.rollout.tensor_model_parallel_size is more than 1, which is not supported yet",
            "leave it out: each process then has a copy of the model in vLLM",
        )
    node["seed"] = config.local.seed + ranks.rank  # processes must not draw the same samples
    if get_device_name() == "cpu":
        node["enforce_eager"] = True  # there are no graphs to capture,
        node["free_cache_engine"] = False  # and no memory of another device to give back
        engine_kwargs = node["engine_kwargs"]["vllm"] or {}
        node["engine_kwargs"]["vllm"] = {"kv_cache_memory_bytes": 2**28, **engine_kwargs}
    return node


def vllm_arguments(config: Any, settings: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """The arguments of `vLLMRollout`."""
    model = config.actor_rollout_ref.model
    known = {field.name for field in fields(RolloutConfig)} - {"multi_turn"}
    rollout = {name: value for name, value in settings.items() if name in known}
    rollout["val_kwargs"] = SamplingConfig(**settings["val_kwargs"])
    model_config = HFModelConfig(
        path=model.path,
        trust_remote_code=model.trust_remote_code,
        override_config=OmegaConf.to_container(model.override_config, resolve=True),  # type: ignore[arg-type]
    )
    model_config.tokenizer = tokenizer
    rollout_config = RolloutConfig(**rollout)
    rollout_config.seed = settings["seed"]  # which upstream asks for, and has no field for
    return {"config": rollout_config, "model_config": model_config, "device_mesh": None}
