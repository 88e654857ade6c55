# vextract:template engine/hf/__package__/workers/rollout_choice.py - edit freely
"""The rollout engine of this project: transformers."""

from typing import Any

from ..errors import ConfigError
from ..run.distributed import Ranks
from .rollout_engine import RolloutEngine as HFRolloutEngine
from .rollout_interface import RolloutEngine
from .trained_model import TrainedModel


def build_rollout_engine(config: Any, tokenizer: Any, ranks: Ranks, policy: TrainedModel) -> RolloutEngine:
    """Return the engine that `actor_rollout_ref.rollout` describes. Every process must call this."""
    if config.actor_rollout_ref.rollout.mode != "sync":
        raise ConfigError(
            "actor_rollout_ref.rollout.mode=async asks for a server, and this project generates with transformers",
            "vextract upgrade --engine vllm (or sglang); or leave actor_rollout_ref.rollout.mode=sync",
        )
    return HFRolloutEngine(config, tokenizer, ranks, policy)
