# vextract:template base/__package__/training/rollouts.py - edit freely
"""From a batch of prompts to a batch of responses, over all processes."""

from typing import Any

from ..run.distributed import Ranks
from ..shims.device import empty_cache
from ..vendored.protocol import DataProto
from ..workers.rollout_interface import RolloutEngine
from .batches import REWARD_COLUMNS


class Rollouts:
    """Writes the responses to a global batch of prompts: each process its share.

    Args:
        config: the whole config.
        ranks: this process among its peers.
        engine: the rollout engine of this process.
    """

    def __init__(self, config: Any, ranks: Ranks, engine: RolloutEngine) -> None:
        self.config = config
        self.ranks = ranks
        self.engine = engine

    def generate(self, prompts: DataProto) -> DataProto:
        """Write the responses to a global batch of prompts, in its order.

        Args:
            prompts: the same on every process: input_ids, attention_mask, position_ids, (bs, prompt_length) int64,
                padded on the left.

        Returns:
            prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids,
            attention_mask, position_ids, (bs, prompt_length + response_length); int64, on the CPU, on every process.
            The columns of the prompts come with it, but for those that only the reward reads.
        """
        return self._generate(prompts, self.ranks)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def _generate(self, prompts: DataProto, ranks: Ranks) -> DataProto:
        columns = {k: v for k, v in prompts.non_tensor_batch.items() if k not in REWARD_COLUMNS}
        given = DataProto(prompts.batch, columns, prompts.meta_info)
        return self._spread(self.engine.generate_sequences, given, ranks)

    def _spread(self, function: Any, prompts: DataProto, ranks: Ranks) -> DataProto:
        """Return what the processes make of their shares, put together; `function` may not wait for other processes."""

        def write(share: DataProto) -> DataProto:
            try:
                return function(share)  # type: ignore[no-any-return]
            finally:
                self.engine.finish()

        empty_cache()  # the engine may need what the update has left in this process's cache
        with self.engine.session():
            return ranks.spread(lambda share: ranks.together(lambda: write(share)), prompts)

    def sync_weights(self) -> None:
        """Have the engine take over the policy's weights, which have changed. Every process must call this."""
        empty_cache()
        self.engine.sync_weights()
