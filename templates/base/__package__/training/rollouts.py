# vextract:template - edit freely; upgrades merge your edits
"""From a batch of prompts to a batch of responses, over all processes."""

from typing import Any

from ..protocol import DataProto, pad_dataproto_to_divisor, unpad_dataproto
from ..workers.rollout_interface import RolloutEngine
from .distributed import Ranks


class Rollouts:
    """Writes the responses to a global batch of prompts: each process its share.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        ranks: this process among its peers.
        engine: the rollout engine of this process.
    """

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, engine: RolloutEngine) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.ranks = ranks
        self.engine = engine

    def generate(self, prompts: DataProto) -> DataProto:
        """Responses to a global batch of prompts, in its order.

        Args:
            prompts: the same on every process: input_ids, attention_mask, position_ids, (bs, prompt_length) int64,
                padded on the left.

        Returns:
            prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids,
            attention_mask, position_ids, (bs, prompt_length + response_length); int64, on the CPU, on every process.
        """
        padded, padding = pad_dataproto_to_divisor(prompts, self.ranks.world_size)
        with self.engine.session():
            responses = self.ranks.gather(self.engine.generate_sequences(self.ranks.share(padded)))
        return unpad_dataproto(responses, pad_size=padding)

    def sync_weights(self) -> None:
        """The policy has changed: the engine takes over its weights. Every process must call this."""
        self.engine.sync_weights()
