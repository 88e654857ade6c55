# vextract:template - edit freely
"""A run whose rewards begin while responses are still written, and whose responses may be written one batch ahead."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from ..episodes.outcomes import episode_metrics
from ..hooks import call_reward
from ..run.background import Background, without_deadline
from ..run.distributed import Ranks, set_random_state
from ..run.seeds import draw_seeds, drawing_from
from ..settings import reward_keys
from ..switches import EPISODES
from ..tracking import timed
from ..vendored.protocol import DataProto
from ..workers.rollout_interface import RolloutEngine
from .early_rewards import EarlyRewards, early_rewards
from .rollouts import Answers, Metrics, Reward, Rollouts

CLOSING_SECONDS = 10.0
ROW = "row_before_arranging"


class PromptsAhead:
    """Batches of a trainer's prompts, of which the next one may be drawn before its turn.

    Args:
        trainer: whose data loader, sample ids and random numbers are drawn from.

    Attributes:
        current: the batch whose turn it is.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self._batches = trainer.draw()
        self.current: dict[str, Any] | None = None
        self._waiting: dict[str, Any] | None = None
        self._before: dict[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        waiting, self._waiting = self._waiting, None
        self.current = next(self._batches) if waiting is None else waiting
        return self.current

    def ahead(self) -> dict[str, Any]:
        """Draw the next batch before its turn; there is one. `place` is then where its drawing began."""
        self._before = self.trainer.position()
        self._waiting = next(self._batches)
        return self._waiting

    def position(self) -> dict[str, Any]:
        """Return where the next batch is drawn: the states of data loader, sample ids and random generators."""
        return self.trainer.position() if self._waiting is None else self._before

    def put_back(self) -> bool:
        """Have a batch that was drawn before its turn drawn again; tell whether there was one."""
        if self._waiting is None:
            return False
        trainer, self._waiting = self.trainer, None
        trainer.train_loader.load_state_dict(self._before["data"])
        trainer.ids.setstate(self._before["ids"])
        set_random_state(self._before["random"])
        self._batches = trainer.draw()
        return True


class OverlappedRollouts(Rollouts):
    """Tells who has ended while others are still written.

    With `local.rollout.ahead` the engine may write beside the training, between `begin` and `finish`; it takes over
    weights when it next writes.
    """

    def __init__(self, config: Any, ranks: Ranks, engine: RolloutEngine) -> None:
        super().__init__(config, ranks, engine)
        self._is_stale = False  # the engine's weights
        self._early: EarlyRewards | None = None
        self._background = Background()
        self._written: DataProto | None = None
        # What is written beside the training goes through a group of processes of its own.
        self._beside = without_deadline(ranks) if config.local.rollout.ahead else ranks

    def generate(  # type: ignore[override]
        self, prompts: DataProto, early: EarlyRewards | None = None
    ) -> DataProto:
        """Write the responses to a global batch of prompts, in its order.

        Args:
            prompts: as `Rollouts.generate` takes them.
            early: is told which responses have ended while others are still written.
        """
        self._settle()
        self._early = early
        return super().generate(prompts)

    def begin(self, prompts: DataProto, then: Callable[[DataProto], None], early: EarlyRewards | None = None) -> None:
        """Begin to write what `generate` would, beside the training, with the weights of now. Every process does.

        `then` is told the responses as soon as they are there, in a thread.
        """
        self._settle()
        self._background.discard()
        (seed,) = draw_seeds(1)
        self._early = early

        def write() -> None:
            if torch.cuda.is_available():  # a thread begins with the first GPU
                torch.cuda.set_device(self.ranks.local_rank)
            with drawing_from(seed):
                self._written = Rollouts.generate(self, prompts, self._beside)
            then(self._written)

        self._background.start("the next batch", write)

    def finish(self) -> DataProto:
        """Wait for what was begun, and return it, or raise what `generate` would have raised."""
        self._background.wait()
        assert self._written is not None
        written, self._written = self._written, None
        return written

    def sync_weights(self) -> None:
        """Have the engine take over the policy's weights; where it may be writing, when it next begins."""
        self._is_stale = True
        if not self.config.local.rollout.ahead:
            self._settle()

    def close(self) -> None:
        """Close the engine, and have what is being written end."""
        super().close()
        self._background.join(CLOSING_SECONDS)

    def _settle(self) -> None:
        """Wait until the engine writes nothing, and hand it the weights that it has not got yet."""
        self._background.join()
        if self._is_stale:
            super().sync_weights()
            self._is_stale = False

    def _spread(self, function: Any, prompts: DataProto, ranks: Ranks) -> DataProto:
        early = self._early if "ended" in inspect.signature(function).parameters else None

        def telling(share: DataProto) -> DataProto:
            if early is None:
                return function(share)  # type: ignore[no-any-return]
            first, tell = ranks.rank * len(share), early.ended
            return function(share, ended=lambda row, *known: tell(first + row, *known))  # type: ignore[no-any-return]

        with early or nullcontext():
            return super()._spread(telling, prompts, ranks)


class OverlappedAnswers(Answers):
    """Has prompts of a trainer answered, and the answers scored, either of which may have begun before its turn.

    Args:
        trainer: whose rollouts, reward, settings and sample ids are used.
    """

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer)
        # Prompts whose responses are being written; the batch of them; what scores the responses.
        self._ahead: tuple[Any, DataProto, Any] | None = None
        # On rank 0 the reward of a batch written ahead, from when it is written, and of one whose step has begun.
        self._reward_ahead: Future[Reward] | None = None
        self._reward_begun: Future[Reward] | None = None

    def answer(self, prompts: dict[str, Any], timing: dict[str, float], metrics: Metrics) -> DataProto:
        """Return a batch of prompts with `rollout.n` responses to each; those to the same prompt have the same uid."""
        if not self.trainer.config.local.rollout.ahead:
            batch = super().answer(prompts, timing, metrics)
        else:
            batch = self._answer(prompts, timing, metrics)
        batch.non_tensor_batch[ROW] = np.arange(len(batch))
        return batch

    def score(self, batch: DataProto, reward_fn: Any = None) -> Reward:
        """Return the reward of a global batch, as it was written, on every process."""
        batch.non_tensor_batch.pop(ROW, None)
        return super().score(batch, reward_fn)

    def write(self, asked: DataProto, reward_fn: Any) -> tuple[DataProto, Any]:
        """Have prompts answered; return the responses, and what scores them, which may have begun to."""
        early = self._early_rewards(asked, reward_fn)
        return self.trainer.rollouts.generate(asked, early), early or reward_fn

    def begin_reward(self, batch: DataProto) -> Any:
        """Have rank 0 compute the reward of the last batch, whose rows may have been put into another order since.

        Returns:
            A future of scores and components on rank 0, None elsewhere.
        """
        rows = batch.non_tensor_batch.pop(ROW).tolist()
        begun, self._reward_begun = self._reward_begun, None
        if begun is not None:
            return self.trainer.background.submit(lambda: in_order(begun.result(), rows))
        if isinstance(self._reward_fn, EarlyRewards):
            self._reward_fn.in_order(rows)
        return self._begin(batch, self._reward_fn)

    def _begin(self, batch: DataProto, reward_fn: Any) -> "Future[Reward] | None":
        """Have rank 0 compute the reward of a global batch: at once, or in the background if so configured."""
        trainer = self.trainer
        if trainer.ranks.rank != 0:
            return None
        # What is added to the batch meanwhile must not be seen by the reward.
        batch = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), dict(batch.meta_info))
        if OmegaConf.select(trainer.config, reward_keys.IN_BACKGROUND):
            return trainer.background.submit(call_reward, reward_fn, batch, trainer.tokenizer)  # type: ignore[no-any-return]
        done: Future[Reward] = Future()
        try:
            done.set_result(call_reward(reward_fn, batch, trainer.tokenizer))
        except Exception as error:
            done.set_exception(error)
        return done

    def _answer(self, prompts: dict[str, Any], timing: dict[str, float], metrics: Metrics) -> DataProto:
        """Do what `answer` does, with responses that may be there already; and have the next ones begun."""
        trainer = self.trainer
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is prompts:
            _, batch, self._reward_fn = ahead
            with timed("gen", timing):  # the part that is not done yet
                responses = trainer.rollouts.finish()
            self._reward_begun, self._reward_ahead = self._reward_ahead, None
        else:
            ahead = None
            batch, prompt_batch = self.prepare_prompts(prompts, trainer.steps_done + 1)
            with timed("gen", timing):
                asked = prompt_batch.repeat(trainer.rollout_n, interleave=True)
                responses, self._reward_fn = self.write(asked, trainer.reward_fn)
        metrics["training/steps_behind"] = 0 if ahead is None else 1
        with timed("gen", timing):
            self._ask_ahead(prompts)
        batch = self.join_responses(batch, responses, trainer.steps_done + 1)
        if EPISODES:
            metrics.update(episode_metrics(batch))
        return batch

    def _early_rewards(self, asked: DataProto, reward_fn: Any) -> EarlyRewards | None:
        return early_rewards(reward_fn, self.trainer.config, self.trainer.ranks, asked)

    def _ask_ahead(self, prompts: dict[str, Any]) -> None:
        """Have the responses to the next batch written while this one, of these prompts, is trained on.

        Not over a checkpoint, from which a run goes on with the weights of then.
        """
        trainer = self.trainer
        step, every = trainer.steps_done + 2, trainer.config.trainer.save_freq
        if prompts is not trainer.prompts.current or step > trainer.total_steps or trainer.is_due(every, step - 1):
            return
        following = trainer.prompts.ahead()
        batch, prompt_batch = self.prepare_prompts(following, step)
        asked = prompt_batch.repeat(trainer.rollout_n, interleave=True)
        early = self._early_rewards(asked, trainer.reward_fn)
        self._reward_ahead = None

        def begin_reward(responses: DataProto) -> None:
            if trainer.ranks.rank == 0 and OmegaConf.select(trainer.config, reward_keys.IN_BACKGROUND):
                answered = self.join_responses(batch, responses, step)
                self._reward_ahead = self._begin(answered, early or trainer.reward_fn)

        trainer.rollouts.begin(asked, begin_reward, early)
        self._ahead = following, batch, early or trainer.reward_fn


def in_order(reward: Reward, rows: Sequence[int]) -> Reward:
    """Return the scores and components of a batch whose rows were put in another order since."""
    scores, components = reward
    return scores[list(rows)], {name: [values[row] for row in rows] for name, values in components.items()}
