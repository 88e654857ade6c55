# vextract:template - edit freely
"""From a batch of prompts to a batch of responses, over all processes."""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from ..episodes.loop import EpisodeLoop
from ..episodes.outcomes import Outcomes
from ..run.background import Background
from ..run.distributed import Ranks, draw_seeds, drawing_from
from ..shims.device import empty_cache
from ..tracking.timing import beside_the_loop
from ..vendored.protocol import DataProto
from ..workers.rollout_interface import RolloutEngine
from .batches import REWARD_COLUMNS
from .early_rewards import EarlyRewards

CLOSING_SECONDS = 10.0


class Rollouts:
    """Writes the responses to a global batch of prompts: each process its share.

    With `actor_rollout_ref.rollout.multi_turn.enable` a response is an episode: see episodes.py. With
    `local.rollout.ahead` the engine may write beside the training, between `begin` and `finish`; it takes over weights
    when it next writes.

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
        self._is_stale = False
        self._background = Background()
        self._written: DataProto | None = None
        # What is written beside the training goes through a group of processes of its own.
        self._beside = ranks.without_deadline() if config.local.rollout.ahead else ranks

    def generate(self, prompts: DataProto, early: EarlyRewards | None = None) -> DataProto:
        """Write the responses to a global batch of prompts, in its order.

        Args:
            prompts: the same on every process: input_ids, attention_mask, position_ids, (bs, prompt_length) int64,
                padded on the left. Episodes need the columns uid and extra_info too.
            early: is told which responses have ended while others are still written.

        Returns:
            prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids,
            attention_mask, position_ids, (bs, prompt_length + response_length); int64, on the CPU, on every process.
            Episodes have a response_mask (bs, response_length) int64 too, 1 on what the model wrote, and what
            `Outcomes.settle` adds. The columns of the prompts come with it, but for those that only the reward reads.

        Raises:
            HookError: too many environments failed.
        """
        self._settle()
        return self._generate(prompts, self.ranks, early)

    def begin(self, prompts: DataProto, then: Callable[[DataProto], None], early: EarlyRewards | None = None) -> None:
        """Begin to write what `generate` would, beside the training, with the weights of now. Every process does.

        `then` is told the responses as soon as they are there, in a thread.
        """
        self._settle()
        self._background.discard()
        (seed,) = draw_seeds(1)

        def write() -> None:
            if torch.cuda.is_available():  # a thread begins with the first GPU
                torch.cuda.set_device(self.ranks.local_rank)
            with beside_the_loop(), drawing_from(seed):
                self._written = self._generate(prompts, self._beside, early)
            then(self._written)

        self._background.start("the next batch", write)

    def finish(self) -> DataProto:
        """Wait for what was begun, and return it, or raise what `generate` would have raised."""
        self._background.wait()
        assert self._written is not None
        written, self._written = self._written, None
        return written

    def close(self) -> None:
        """Close the engine, and have what is being written end."""
        self.engine.close()
        self._background.join(CLOSING_SECONDS)

    def _generate(self, prompts: DataProto, ranks: Ranks, early: EarlyRewards | None) -> DataProto:
        columns = {k: v for k, v in prompts.non_tensor_batch.items() if k not in REWARD_COLUMNS}
        if self.episodes is None:
            given = DataProto(prompts.batch, columns, prompts.meta_info)
            return self._spread(self.engine.generate_sequences, given, ranks, early)
        played = self._spread(self.episodes.run, prompts, ranks, early)
        episodes = self.outcomes.settle(played, prompts.non_tensor_batch)
        columns.pop("raw_prompt_ids", None)
        episodes.non_tensor_batch = columns | episodes.non_tensor_batch
        return episodes

    def _settle(self) -> None:
        """Wait until the engine writes nothing, and hand it the weights that it has not got yet."""
        self._background.join()
        if self._is_stale:
            empty_cache()
            self.engine.sync_weights()
            self._is_stale = False

    def _spread(self, function: Any, prompts: DataProto, ranks: Ranks, early: EarlyRewards | None) -> DataProto:
        """Return what the processes make of their shares, put together; `function` may not wait for other processes."""
        told = early if "ended" in inspect.signature(function).parameters else None

        def write(share: DataProto) -> DataProto:
            arguments = {}
            if told is not None:
                first, tell = ranks.rank * len(share), told.ended
                arguments["ended"] = lambda row, *known: tell(first + row, *known)
            try:
                return function(share, **arguments)  # type: ignore[no-any-return]
            finally:
                self.engine.finish()

        empty_cache()  # the engine may need what the update has left in this process's cache
        with told or nullcontext(), self.engine.session():
            return ranks.spread(lambda share: ranks.together(lambda: write(share)), prompts)

    def sync_weights(self) -> None:
        """Have the engine take over the policy's weights, which have changed. Every process must call this."""
        self._is_stale = True
        if not self.config.local.rollout.ahead:  # else it may be writing
            self._settle()
