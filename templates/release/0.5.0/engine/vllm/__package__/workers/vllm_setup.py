# vextract:template - edit freely; upgrades merge your edits
"""From the project's config to what the vendored vLLM rollout takes in this release of verl."""

from typing import Any

from omegaconf import OmegaConf

from ..training.config_loading import ConfigError
from ..training.distributed import Ranks
from ..utils.device import get_device_name


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
    from transformers import AutoConfig

    model = config.actor_rollout_ref.model
    return {
        "model_path": model.path,
        "config": OmegaConf.create(settings),
        "tokenizer": tokenizer,
        "model_hf_config": AutoConfig.from_pretrained(model.path, trust_remote_code=model.trust_remote_code),
        "trust_remote_code": model.trust_remote_code,
    }
