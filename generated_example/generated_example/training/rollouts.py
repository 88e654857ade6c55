# vextract:template base/__package__/training/rollouts.py - edit freely
"""From a batch of prompts to a batch of responses, over all processes, and to their reward."""

import uuid
from typing import Any

import numpy as np
import torch

from ..hooks import call_reward
from ..registries import AdvantageEstimator
from ..run.distributed import Ranks
from ..shims.device import empty_cache
from ..tracking import timed
from ..vendored.algorithms.trainer_functions import compute_response_mask
from ..vendored.protocol import DataProto
from ..workers.rollout_interface import RolloutEngine
from .batches import REWARD_COLUMNS, generation_batch

Metrics = dict[str, Any]
Reward = tuple[torch.Tensor, dict[str, list[Any]]]


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

    def generate(self, prompts: DataProto, ranks: Ranks | None = None) -> DataProto:
        """Write the responses to a global batch of prompts, in its order, through these ranks or else the run's.

        Returns:
            What `RolloutEngine.generate_sequences` does, on every process, with the columns of the prompts, but for
            those that only the reward reads.
        """
        ranks = ranks or self.ranks
        columns = {k: v for k, v in prompts.non_tensor_batch.items() if k not in REWARD_COLUMNS}
        given = DataProto(prompts.batch, columns, prompts.meta_info)
        return self._spread(self.engine.generate_sequences, given, ranks)

    def sync_weights(self) -> None:
        """Have the engine take over the policy's weights, which have changed. Every process must call this."""
        empty_cache()
        self.engine.sync_weights()

    def _spread(self, function: Any, prompts: DataProto, ranks: Ranks) -> DataProto:
        """Return what the processes make of their shares, put together; `function` may not wait for other processes."""
        empty_cache()  # the engine may need what the update has left in this process's cache
        return ranks.spread(lambda share: ranks.together(lambda: function(share)), prompts)


class Answers:
    """Has prompts of a trainer answered, and the answers scored.

    Args:
        trainer: whose rollouts, reward, settings and sample ids are used.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer: Any = trainer

    def answer(self, prompts: dict[str, Any], timing: dict[str, float], metrics: Metrics) -> DataProto:
        """Return a batch of prompts with `rollout.n` responses to each; those to the same prompt have the same uid."""
        trainer = self.trainer
        batch, asked = self.prepare_prompts(prompts, trainer.steps_done + 1)
        with timed("gen", timing):
            repeated = asked.repeat(trainer.rollout_n, interleave=True)
            responses = trainer.rollouts.generate(repeated)
        if trainer.config.algorithm.adv_estimator == AdvantageEstimator.REMAX:
            with timed("gen_max", timing):
                self._add_reward_baselines(batch, asked)
        return self.join_responses(batch, responses, trainer.steps_done + 1)

    def prepare_prompts(self, prompts: dict[str, Any], step: int) -> tuple[DataProto, DataProto]:
        """Return a batch of prompts that a step learns from, with their uids, and what of it goes to the rollout."""
        batch, ids = DataProto.from_single_dict(prompts), self.trainer.ids
        uids = [str(uuid.UUID(int=ids.getrandbits(128), version=4)) for _ in range(len(batch))]
        batch.non_tensor_batch["uid"] = np.array(uids, dtype=object)
        asked = generation_batch(batch)
        asked.meta_info["global_steps"] = step
        return batch, asked

    def join_responses(self, batch: DataProto, responses: DataProto, step: int) -> DataProto:
        """Return prompts with the responses to them, for a step."""
        answered: DataProto = batch.repeat(self.trainer.rollout_n, interleave=True).union(responses)
        answered.meta_info["global_steps"] = step
        if "response_mask" not in answered.batch.keys():
            answered.batch["response_mask"] = compute_response_mask(answered)
        return answered

    def score(self, batch: DataProto) -> Reward:
        """Return the reward of a global batch, on every process; rank 0 computes it."""
        trainer = self.trainer
        return trainer.ranks.on_driver(lambda: call_reward(trainer.reward_fn, batch, trainer.tokenizer))

    def _add_reward_baselines(self, batch: DataProto, prompts: DataProto) -> None:
        """Add the baselines of ReMax, (prompts,): the reward of the likeliest response to each prompt."""
        meta_info = {**prompts.meta_info, "do_sample": False}
        greedy = DataProto(prompts.batch.copy(), dict(prompts.non_tensor_batch), meta_info)
        answered = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), dict(batch.meta_info))
        scores, _ = self.score(answered.union(self.trainer.rollouts.generate(greedy)))
        batch.batch["reward_baselines"] = scores.sum(dim=-1)
