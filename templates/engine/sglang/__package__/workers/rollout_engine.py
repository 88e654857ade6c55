# vextract:template - edit freely
"""The rollout engine of this project: an SGLang server."""

from typing import Any

from ..errors import ConfigError
from ..run.distributed import Ranks
from .rollout_interface import RolloutEngine
from .servers.engine import ServerEngine
from .servers.sglang_server import SglangServer
from .trained_model import TrainedModel


def build_rollout_engine(config: Any, tokenizer: Any, ranks: Ranks, policy: TrainedModel) -> RolloutEngine:
    """Return the engine that `actor_rollout_ref.rollout` describes. Every process must call this."""
    if config.actor_rollout_ref.rollout.mode != "async":
        raise ConfigError(
            "actor_rollout_ref.rollout.mode=sync asks for an engine in the trainer's own process",
            "leave it out: with SGLang rollouts always come from a server",
        )
    return ServerEngine(config, tokenizer, ranks, policy, SglangServer)
