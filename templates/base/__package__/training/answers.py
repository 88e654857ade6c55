# vextract:template - edit freely
"""The responses to a batch of prompts, and their reward."""

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from omegaconf import OmegaConf

from ..episodes.outcomes import episode_metrics
from ..settings import reward_keys
from ..switches import DYNAMIC_SAMPLING, EPISODES, WATCH
from ..tracking.timing import timed
from ..vendored.algorithms.trainer_functions import compute_response_mask
from ..vendored.protocol import DataProto
from ..workers.rollout_interface import WITH_LOG_PROBS
from .batches import generation_batch
from .hooks import call_reward
from .registries import AdvantageEstimator

if TYPE_CHECKING:
    from .trainer import LocalPPOTrainer

Metrics = dict[str, Any]
Reward = tuple[torch.Tensor, dict[str, list[Any]]]


class Answers:
    """Has prompts of a trainer answered, and the answers scored.

    Args:
        trainer: whose rollouts, reward, settings and sample ids are used.
    """

    def __init__(self, trainer: "LocalPPOTrainer") -> None:
        self.trainer: Any = trainer
        self._reward_fn: Any = None  # of the last batch

    def to(self, prompts: dict[str, Any], timing: dict[str, float], metrics: Metrics) -> DataProto:
        """Return a batch of prompts with `rollout.n` responses to each; those to the same prompt have the same uid."""
        trainer = self.trainer
        batch, prompt_batch = self._questions(prompts, trainer.steps_done + 1)
        with timed("gen", timing):
            asked = prompt_batch.repeat(trainer.rollout_n, interleave=True)
            responses, self._reward_fn = self.write(asked, trainer.reward_fn)
        if trainer.config.algorithm.adv_estimator == AdvantageEstimator.REMAX:
            with timed("gen_max", timing):
                self._add_reward_baselines(batch, prompt_batch)
        batch = self._answered(batch, responses, trainer.steps_done + 1)
        if EPISODES:
            metrics.update(episode_metrics(batch))
        return batch

    def write(self, asked: DataProto, reward_fn: Any) -> tuple[DataProto, Any]:
        """Have prompts answered; return the responses, and what scores them."""
        return self.trainer.rollouts.generate(asked), reward_fn

    if DYNAMIC_SAMPLING:

        def score(self, batch: DataProto) -> Reward:
            """Return the reward of the last batch, as it was written, on every process."""
            return self._scored(batch, self._reward_fn)

    def begin_reward(self, batch: DataProto) -> "Future[Reward] | None":
        """Have rank 0 compute the reward of the last batch."""
        return self._start_reward(batch, self._reward_fn)

    def _answered(self, batch: DataProto, responses: DataProto, step: int) -> DataProto:
        """Return prompts with the responses to them, for a step."""
        answered: DataProto = batch.repeat(self.trainer.rollout_n, interleave=True).union(responses)
        answered.meta_info["global_steps"] = step
        if "response_mask" not in answered.batch.keys():
            answered.batch["response_mask"] = compute_response_mask(answered)
        return answered

    def _questions(self, prompts: dict[str, Any], step: int) -> tuple[DataProto, DataProto]:
        """Return a batch of prompts that a step learns from, with their uids, and what of it goes to the rollout."""
        batch = DataProto.from_single_dict(prompts)
        batch.non_tensor_batch["uid"] = np.array([self._new_id() for _ in range(len(batch))], dtype=object)
        prompt_batch = generation_batch(batch)
        prompt_batch.meta_info["global_steps"] = step
        if WATCH:
            prompt_batch.meta_info[WITH_LOG_PROBS] = self.trainer.looks_at_engine(step)
        return batch, prompt_batch

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self.trainer.ids.getrandbits(128), version=4))

    def _add_reward_baselines(self, batch: DataProto, prompts: DataProto) -> None:
        """Add the baselines of ReMax, (prompts,): the reward of the likeliest response to each prompt."""
        trainer = self.trainer
        meta_info = {**prompts.meta_info, "do_sample": False, WITH_LOG_PROBS: False}
        greedy = DataProto(prompts.batch.copy(), dict(prompts.non_tensor_batch), meta_info)
        responses, reward_fn = self.write(greedy, trainer.reward_fn)
        answered = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), dict(batch.meta_info)).union(responses)
        reward, _ = self._scored(answered, reward_fn)
        batch.batch["reward_baselines"] = reward.sum(dim=-1)

    def _scored(self, batch: DataProto, reward_fn: Any) -> Reward:
        """Return the reward of a batch, on every process."""
        trainer = self.trainer
        found: Reward = trainer.ranks.on_driver(lambda: call_reward(reward_fn, batch, trainer.tokenizer))
        return found

    def _start_reward(self, batch: DataProto, reward_fn: Callable[..., Any]) -> "Future[Reward] | None":
        """Have rank 0 compute the reward of the global batch: at once, or in the background if so configured."""
        trainer = self.trainer
        if trainer.ranks.rank != 0:
            return None
        # What is added to the batch meanwhile must not be seen by the reward.
        batch = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), dict(batch.meta_info))
        if OmegaConf.select(trainer.config, reward_keys.IN_BACKGROUND):
            return trainer.background.submit(call_reward, reward_fn, batch, trainer.tokenizer)
        done: Future[Reward] = Future()
        try:
            done.set_result(call_reward(reward_fn, batch, trainer.tokenizer))
        except Exception as error:
            done.set_exception(error)
        return done
