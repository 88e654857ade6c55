# vextract:template - edit freely
"""From a batch of prompts to a batch of responses, over all processes."""

from typing import Any

from ..episodes.loop import EpisodeLoop
from ..episodes.outcomes import Outcomes
from ..run.distributed import Ranks
from ..shims.device import empty_cache
from ..vendored.protocol import DataProto
from ..workers.rollout_interface import RolloutEngine
from .batches import REWARD_COLUMNS


class Rollouts:
    """Writes the responses to a global batch of prompts: each process its share.

    With `actor_rollout_ref.rollout.multi_turn.enable` a response is an episode: see episodes.py.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        ranks: this process among its peers.
        engine: the rollout engine of this process.
        make_env: makes the environments of episodes; None: the hook of that name does.
    """

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, engine: RolloutEngine, make_env: Any = None) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.ranks = ranks
        self.engine = engine
        self.episodes: EpisodeLoop | None = None
        if config.actor_rollout_ref.rollout.multi_turn.enable:
            self.episodes = EpisodeLoop(config, tokenizer, engine, make_env)
            self.outcomes = Outcomes(config, tokenizer, shows_errors=ranks.rank == 0)
        self._is_stale = False  # its weights

    def generate(self, prompts: DataProto) -> DataProto:
        """Write the responses to a global batch of prompts, in its order.

        Args:
            prompts: the same on every process: input_ids, attention_mask, position_ids, (bs, prompt_length) int64,
                padded on the left. Episodes need the columns uid and extra_info too.

        Returns:
            prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids,
            attention_mask, position_ids, (bs, prompt_length + response_length); int64, on the CPU, on every process.
            Episodes have a response_mask (bs, response_length) int64 too, 1 on what the model wrote, and what
            `Outcomes.settle` adds. The columns of the prompts come with it, but for those that only the reward reads.

        Raises:
            HookError: too many environments failed.
        """
        self._settle()
        return self._generate(prompts, self.ranks)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def _generate(self, prompts: DataProto, ranks: Ranks) -> DataProto:
        columns = {k: v for k, v in prompts.non_tensor_batch.items() if k not in REWARD_COLUMNS}
        if self.episodes is None:
            given = DataProto(prompts.batch, columns, prompts.meta_info)
            return self._spread(self.engine.generate_sequences, given, ranks)
        played = self._spread(self.episodes.run, prompts, ranks)
        episodes = self.outcomes.settle(played, prompts.non_tensor_batch)
        columns.pop("raw_prompt_ids", None)
        episodes.non_tensor_batch = columns | episodes.non_tensor_batch
        return episodes

    def _settle(self) -> None:
        """Hand the engine the weights that it has not got yet."""
        if self._is_stale:
            empty_cache()
            self.engine.sync_weights()
            self._is_stale = False

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
        self._is_stale = True
        self._settle()
