# vextract:template - edit freely
"""The parts of a run without a trainer, for a loop of your own: what writes responses, and the models.

Each computes what the trainer's own computes on the same batch, and is made where it is first needed.
"""

import contextlib
import copy
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from ..episodes.playing import play_episodes
from ..errors import ConfigError
from ..run.distributed import Ranks, random_state, same_random_numbers, seed_everything, set_random_state
from ..run.process import Closing, without_running_loop
from ..settings.loading import check_choice, settle_device
from ..settings.setting_checks import check_sizes
from ..switches import CRITIC, EPISODES
from ..training.assembly import check_config, prepare_process, settle_model
from ..training.generation import answer, texts_of
from ..training.rollouts import Rollouts
from ..vendored.protocol import DataProto
from ..workers.models import load_tokenizer
from ..workers.policy import Policy, Reference
from ..workers.rollout_engine import build_rollout_engine
from ..workers.rollout_interface import warn_about_sampling
from ..workers.trained_model import lr_schedule, reduce_over_ranks
from ..workers.value_model import Critic


class LocalRolloutManager(Closing):
    """Writes responses by the project's engine: in this process or by a server, as the config says.

    It holds a model: use it in a `with` statement, or `close` it. The global random numbers are its caller's: it draws
    from its own.

    Args:
        config: the whole config, from `load_config`. It is copied.
        engine_type: hf, vllm or sglang, if it is to be checked that it is this one.
        path: a directory with the weights, such as .../global_step_20/actor; None: the configured model.

    Attributes:
        tokenizer: of the policy.
        ranks: this process among its peers. Every process must make the same calls.

    Raises:
        ConfigError: the project has another engine, or settings contradict each other.
    """

    total_steps: int | None = None

    def __init__(self, config: Any, *, engine_type: str | None = None, path: str | Path | None = None) -> None:
        if engine_type is not None:
            check_choice("actor_rollout_ref.rollout.name", engine_type)
        self.config, self._path = copy.deepcopy(config), path
        self._calls = 0
        self._around = ExitStack()
        self._end = weakref.finalize(self, self._around.close)
        with ExitStack() as undo, without_running_loop():
            undo.callback(self.close)
            self.ranks = Ranks.of_process(self.config)
            self._around.callback(self.ranks.close)
            settle_device(self.config)
            prepare_process()
            check_config(self.config, self.ranks.world_size)
            check_sizes(self.config)
            settle_model(self.config, self.ranks)
            with self._making():
                self.tokenizer = load_tokenizer(self.config.actor_rollout_ref.model, self.ranks)
                self._random = random_state()
            undo.pop_all()

    @cached_property
    def policy(self) -> Policy:
        """Return the policy. Its optimizer takes no memory before the first update."""
        path = str(self._path or self.config.actor_rollout_ref.model.path)
        with self._making():
            return Policy(self.config, self.tokenizer, self.ranks, path, self.total_steps or 1)

    @cached_property
    def rollouts(self) -> Rollouts:
        """Return what writes the responses, with the policy's weights."""
        policy = self.policy
        with self._making():
            warn_about_sampling(policy.module, self.config, self.ranks)
            engine = build_rollout_engine(self.config, self.tokenizer, self.ranks, policy)
            self._around.enter_context(contextlib.closing(engine))
            rollouts = Rollouts(self.config, self.ranks, engine)
            if EPISODES:
                play_episodes(rollouts, self.config, self.tokenizer)
            return rollouts

    def generate_sequences(
        self, prompts: DataProto | Iterable[Any], *, n: int = 1, do_sample: bool | None = None
    ) -> DataProto:
        """Write responses, as a step of training does; each call draws others.

        Args:
            prompts: texts; lists of messages; or a batch with input_ids, attention_mask, position_ids,
                (prompts, prompt_length) int64, padded on the left.
            n: responses to each, one behind the other.
            do_sample: whether tokens are drawn; otherwise the likeliest is taken each time. None: as in training.

        Returns:
            prompts (bs, prompt_length), responses and response_mask (bs, response_length), and of both together
            input_ids, attention_mask, position_ids; int64, on the CPU. Maybe also rollout_log_probs. The columns of
            the prompts come with it, and `uid`, which tells the prompts apart.

        Raises:
            DataError: there are no prompts, or one is too long, or is none.
            RolloutError: the engine cannot go on.
        """
        self.require_open()
        self._calls += 1
        meta = {"global_steps": self._calls} | ({} if do_sample is None else {"do_sample": do_sample})
        rollouts, before = self.rollouts, random_state()
        set_random_state(self._random)
        try:
            with without_running_loop():
                return answer(rollouts, self.config, self.tokenizer, prompts, n, **meta)
        finally:
            self._random = random_state()
            set_random_state(before)

    def generate(self, prompts: Iterable[Any], *, n: int = 1, do_sample: bool | None = None) -> list[str]:
        """Write responses, as text: see `generate_sequences`."""
        return texts_of(self.generate_sequences(prompts, n=n, do_sample=do_sample), self.tokenizer)

    @contextlib.contextmanager
    def _making(self) -> Iterator[None]:
        """Make a part as a run does, with its seed; the caller's random numbers stay where they are."""
        self.require_open()
        before = random_state()
        seed_everything(self.config.local.seed + self.ranks.rank)
        try:
            with without_running_loop():
                yield
        finally:
            set_random_state(before)


class LocalFSDPWorkers(LocalRolloutManager):
    """The models of a run, with the methods that upstream's worker groups have, and the engine.

    Args:
        config: the whole config, from `load_config`. It is copied.
        engine_type, path: see `LocalRolloutManager`.
        total_steps: how many updates there will be; None: trainer.total_training_steps. What the learning rate is may
            depend on it.

    Attributes:
        policy, reference, critic: each has `module`, the model of transformers.
    """

    def __init__(
        self,
        config: Any,
        *,
        engine_type: str | None = None,
        path: str | Path | None = None,
        total_steps: int | None = None,
    ) -> None:
        self.total_steps = total_steps or config.trainer.total_training_steps
        self.updates = {"actor": 0, "critic": 0}
        super().__init__(config, engine_type=engine_type, path=path)

    @cached_property
    def reference(self) -> Reference:
        """Return the model that the policy is held close to; with LoRA the policy's own, without the adapter."""
        policy = self.policy
        with self._making():
            return Reference(self.config, self.tokenizer, self.ranks, policy)

    def compute_log_prob(self, batch: DataProto) -> DataProto:
        """Compute the log-probability of each response token, and the entropy there.

        Args:
            batch: responses to prompts, as `generate_sequences` returns them.

        Returns:
            old_log_probs and entropys, (bs, response_length) float32.
        """
        return self.ranks.spread(self.policy.compute_log_prob, batch)

    def compute_ref_log_prob(self, batch: DataProto) -> DataProto:
        """Compute the reference's log-probability of each response token: ref_log_prob, (bs, response_length)."""
        return self.ranks.spread(self.reference.compute_log_prob, batch)

    def update_actor(self, batch: DataProto) -> dict[str, Any]:
        """Train the policy on a batch, once: all its mini-batches, ppo_epochs times. The engine gets the weights.

        Args:
            batch: with advantages, response_mask, old_log_probs and, if actor.use_kl_loss, ref_log_prob, all
                (bs, response_length).

        Returns:
            Metrics by upstream's names: actor/...
        """
        metrics = self._update("actor", self.policy, self.config.actor_rollout_ref.actor.optim, batch)
        if "rollouts" in self.__dict__:
            with without_running_loop():
                self.rollouts.sync_weights()
        return metrics

    if CRITIC:

        @cached_property
        def critic(self) -> Critic:
            """Return the model that estimates values: the configured one."""
            with self._making():
                return Critic(self.config, self.tokenizer, self.ranks, None, self.total_steps or 1)

        def compute_values(self, batch: DataProto) -> DataProto:
            """Compute the value at each response token: values, (bs, response_length) float32."""
            return self.ranks.spread(self.critic.compute_values, batch)

        def update_critic(self, batch: DataProto) -> dict[str, Any]:
            """Train the critic on a batch, once: all its mini-batches, ppo_epochs times.

            Args:
                batch: with values, returns and response_mask, all (bs, response_length).

            Returns:
                Metrics by upstream's names: critic/...
            """
            return self._update("critic", self.critic, self.config.critic.optim, batch)

    def _update(self, name: str, model: Any, optim: Any, batch: DataProto) -> dict[str, Any]:
        self.require_open()
        if self.total_steps is None and not is_constant(optim):
            raise ConfigError(
                "the learning rate depends on how many updates there will be",
                "pass total_steps=, or set trainer.total_training_steps",
            )
        tokens = batch.batch["attention_mask"].sum(dim=-1).tolist()
        batch = DataProto(batch.batch, batch.non_tensor_batch, {"global_token_num": tokens, **batch.meta_info})
        with without_running_loop(), same_random_numbers(f"{self.config.local.seed} {self.updates[name]} {name}"):
            metrics: dict[str, Any] = model.update(batch)
        self.updates[name] += 1
        return reduce_over_ranks(metrics, self.ranks)


def is_constant(optim: Any) -> bool:
    """Tell whether the learning rate of an `optim` section does not depend on how many steps there are."""
    warms_up = optim.lr_warmup_steps < 0 and optim.lr_warmup_steps_ratio > 0
    return lr_schedule(optim) == "constant" and not warms_up
