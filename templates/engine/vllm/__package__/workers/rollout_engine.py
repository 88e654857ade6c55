# vextract:template - edit freely
"""The rollout engine of this project: vLLM, in the trainer's own process or behind HTTP."""

from typing import Any

from ..run.distributed import Ranks
from .rollout_interface import RolloutEngine
from .trained_model import TrainedModel


def build_rollout_engine(config: Any, tokenizer: Any, ranks: Ranks, policy: TrainedModel) -> RolloutEngine:
    """Return the engine that `actor_rollout_ref.rollout.mode` names. Every process must call this.

    The trainer need not have vLLM installed if it is a server's.
    """
    if config.actor_rollout_ref.rollout.mode == "async":
        from .servers.engine import ServerEngine
        from .servers.vllm_server import VllmServer

        return ServerEngine(config, tokenizer, ranks, policy, VllmServer)
    from .vllm_rollout import RolloutEngine as InProcessEngine

    return InProcessEngine(config, tokenizer, ranks, policy)
