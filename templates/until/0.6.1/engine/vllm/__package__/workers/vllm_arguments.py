# vextract:template - edit freely
"""From the project's config to what the vendored vLLM rollout takes in this release of verl."""

from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf

from ..vendored.workers.config.model import HFModelConfig
from ..vendored.workers.config.rollout import RolloutConfig, SamplingConfig


def vllm_arguments(config: Any, settings: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """Return the arguments of `vLLMRollout`."""
    model = config.actor_rollout_ref.model
    known = {field.name for field in fields(RolloutConfig)} - {"multi_turn"}
    rollout = {name: value for name, value in settings.items() if name in known}
    known = {field.name for field in fields(SamplingConfig)}
    rollout["val_kwargs"] = SamplingConfig(**{k: v for k, v in settings["val_kwargs"].items() if k in known})
    overrides: Any = OmegaConf.to_container(model.override_config, resolve=True)
    model_config = HFModelConfig(
        path=model.path,
        trust_remote_code=model.trust_remote_code,
        override_config={**overrides, "attn_implementation": overrides.get("attn_implementation") or "sdpa"},
    )
    model_config.tokenizer = tokenizer
    rollout_config = RolloutConfig(**rollout)
    rollout_config.seed = settings["seed"]  # which upstream asks for, and has no field for
    return {"config": rollout_config, "model_config": model_config, "device_mesh": None}
