# vextract:template base/__package__/training/answers.py - edit freely
"""The responses to a batch of prompts, and their reward, either of which may have been begun before its turn."""

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from omegaconf import OmegaConf

from ..episodes.outcomes import episode_metrics
from ..settings import reward_keys
from ..tracking.timing import timed, under_way
from ..vendored.algorithms.trainer_functions import compute_response_mask
from ..vendored.protocol import DataProto
from ..workers.rollout_interface import WITH_LOG_PROBS
from .batches import generation_batch, in_order
from .early_rewards import EarlyRewards, early_rewards
from .hook_errors import call_reward
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
        self.trainer = trainer
        # Prompts whose responses are being written; the batch of them; what scores those that have ended.
        self._ahead: tuple[Any, DataProto, EarlyRewards | None] | None = None
        self._early: EarlyRewards | None = None  # of the last batch
        # On rank 0 the reward of a batch written ahead, from when it is written, and of one whose step has begun.
        self._reward_ahead: Future[Reward] | None = None
        self._reward_begun: Future[Reward] | None = None

    def to(self, prompts: dict[str, Any], timing: dict[str, float], metrics: Metrics) -> DataProto:
        """Return a batch of prompts with `rollout.n` responses to each; those to the same prompt have the same uid."""
        trainer = self.trainer
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is prompts:
            _, batch, self._early = ahead
            with timed("gen", timing):  # the part that is not done yet
                responses = trainer.rollouts.finish()
            self._reward_begun, self._reward_ahead = self._reward_ahead, None
        else:
            ahead = None
            batch, prompt_batch = self._questions(prompts, trainer.steps_done + 1)
            asked = prompt_batch.repeat(trainer.rollout_n, interleave=True)
            self._early = self._early_rewards(asked)
            with timed("gen", timing):
                responses = trainer.rollouts.generate(asked, self._early)
            if trainer.config.algorithm.adv_estimator == AdvantageEstimator.REMAX:
                with timed("gen_max", timing):
                    self._add_reward_baselines(batch, prompt_batch)
        if trainer.config.local.rollout.ahead:
            metrics["training/steps_behind"] = 0 if ahead is None else 1
            with timed("gen", timing):
                self._ask_ahead(prompts)
        batch = self._answered(batch, responses, trainer.steps_done + 1)
        metrics.update(episode_metrics(batch))
        return batch

    def score(self, batch: DataProto) -> Reward:
        """Return the reward of the last batch, as it was written, on every process."""
        trainer = self.trainer
        reward_fn = self._early or trainer.reward_fn
        return trainer.ranks.on_driver(lambda: call_reward(reward_fn, batch, trainer.tokenizer, trainer.words))

    def begin_reward(self, batch: DataProto, rows: list[int]) -> "Future[Reward] | None":
        """Have rank 0 compute the reward of the last batch, whose rows were put into the order of `rows` since."""
        begun, self._reward_begun = self._reward_begun, None
        if begun is not None:
            return self.trainer.background.submit(lambda: in_order(begun.result(), rows))
        return self._start_reward(batch, self._early.in_order(rows) if self._early else self.trainer.reward_fn)

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
        prompt_batch.meta_info[WITH_LOG_PROBS] = self.trainer.looks_at_engine(step)
        return batch, prompt_batch

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self.trainer.ids.getrandbits(128), version=4))

    def _early_rewards(self, asked: DataProto) -> EarlyRewards | None:
        trainer = self.trainer
        return early_rewards(trainer.reward_fn, trainer.config, trainer.ranks, asked, trainer.words)

    def _ask_ahead(self, prompts: dict[str, Any]) -> None:
        """Have the responses to the next batch written while this one, of these prompts, is trained on.

        Not over a checkpoint, from which a run goes on with the weights of then.
        """
        trainer = self.trainer
        step = trainer.steps_done + 2
        if prompts is not trainer.prompts.current or step > trainer.total_steps or trainer._run.saves_after(step - 1):
            return
        following = trainer.prompts.ahead()
        batch, prompt_batch = self._questions(following, step)
        asked = prompt_batch.repeat(trainer.rollout_n, interleave=True)
        early = self._early_rewards(asked)
        self._reward_ahead = None

        def begin_reward(responses: DataProto) -> None:
            if trainer.ranks.rank == 0 and OmegaConf.select(trainer.config, reward_keys.IN_BACKGROUND):
                answered = self._answered(batch, responses, step)
                self._reward_ahead = self._start_reward(answered, early or trainer.reward_fn)

        with under_way("weights"):
            trainer.rollouts.begin(asked, begin_reward, early)
        self._ahead = following, batch, early

    def _add_reward_baselines(self, batch: DataProto, prompts: DataProto) -> None:
        """Add the baselines of ReMax, (prompts,): the reward of the likeliest response to each prompt."""
        trainer = self.trainer
        meta_info = {**prompts.meta_info, "do_sample": False, WITH_LOG_PROBS: False}
        greedy = DataProto(prompts.batch.copy(), dict(prompts.non_tensor_batch), meta_info)
        early = self._early_rewards(greedy)
        responses = trainer.rollouts.generate(greedy, early)
        answered = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), dict(batch.meta_info)).union(responses)
        reward_fn = early or trainer.reward_fn
        reward, _ = trainer.ranks.on_driver(lambda: call_reward(reward_fn, answered, trainer.tokenizer, trainer.words))
        batch.batch["reward_baselines"] = reward.sum(dim=-1)

    def _start_reward(self, batch: DataProto, reward_fn: Callable[..., Any]) -> "Future[Reward] | None":
        """Have rank 0 compute the reward of the global batch: at once, or in the background if so configured."""
        trainer = self.trainer
        if trainer.ranks.rank != 0:
            return None
        # What is added to the batch meanwhile must not be seen by the reward.
        batch = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), dict(batch.meta_info))
        if OmegaConf.select(trainer.config, reward_keys.IN_BACKGROUND):
            return trainer.background.submit(call_reward, reward_fn, batch, trainer.tokenizer, trainer.words)
        done: Future[Reward] = Future()
        try:
            done.set_result(call_reward(reward_fn, batch, trainer.tokenizer, trainer.words))
        except Exception as error:
            done.set_exception(error)
        return done
