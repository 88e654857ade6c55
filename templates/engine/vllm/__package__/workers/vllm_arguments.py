# vextract:template - edit freely
"""From the project's config to what vllm_base.py takes."""

from typing import Any

from omegaconf import OmegaConf


def vllm_arguments(config: Any, settings: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """Return the arguments of `VllmRollout`."""
    model = config.actor_rollout_ref.model
    return {
        "config": OmegaConf.create(settings),
        "model_path": model.path,
        "tokenizer": tokenizer,
        "trust_remote_code": model.trust_remote_code,
    }
