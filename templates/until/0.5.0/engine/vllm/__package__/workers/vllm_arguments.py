# vextract:template - edit freely
"""From the project's config to what the vendored vLLM rollout takes in this release of verl."""

from typing import Any

from omegaconf import OmegaConf


def vllm_arguments(config: Any, settings: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """Return the arguments of `vLLMRollout`."""
    from transformers import AutoConfig

    model = config.actor_rollout_ref.model
    return {
        "model_path": model.path,
        "config": OmegaConf.create(settings),
        "tokenizer": tokenizer,
        "model_hf_config": AutoConfig.from_pretrained(model.path, trust_remote_code=model.trust_remote_code),
        "trust_remote_code": model.trust_remote_code,
    }
