# vextract:template - edit freely
"""The parts of a run without a trainer: what writes responses, and the models.

Each computes what the trainer's own computes on the same batch. One holds a model: use it in a `with` statement, or
`close` it.
"""

import contextlib
import copy
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
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


class Part(Closing):
    """Holds what the parts have in common. The global random numbers are its caller's: a part draws from its own.

    Attributes:
        config: the whole config, a copy.
        tokenizer: of the policy.
        ranks: this process among its peers. Every process must make the same calls.
    """

    def __init__(self, config: Any) -> None:
        self.config = copy.deepcopy(config)
        section = self.config.actor_rollout_ref
        with ExitStack() as around, without_running_loop():
            self.ranks = Ranks.of_process(self.config)
            around.callback(self.ranks.close)
            settle_device(self.config)
            prepare_process()
            check_config(self.config, self.ranks.world_size)
            check_sizes(self.config)
            settle_model(self.config, self.ranks)
            before = random_state()
            try:
                seed_everything(self.config.local.seed + self.ranks.rank)
                self.tokenizer = load_tokenizer(section.model, self.ranks)
                self._build(around)
                self._random = random_state()
            finally:
                set_random_state(before)
            self._end = weakref.finalize(self, around.pop_all().close)

    def _build(self, around: ExitStack) -> None:
        """Make what the part consists of; what has to be ended is entered in `around`."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        before = random_state()
        set_random_state(self._random)
        try:
            yield
        finally:
            self._random = random_state()
            set_random_state(before)


class Trained(Part):
    """A model that can be trained. An optimizer takes no memory before the first update.

    Args:
        config: the whole config, from `load_config`. It is copied.
        path: a directory with the weights, such as .../global_step_20/actor; None: the configured model.
        total_steps: how many updates there will be; None: trainer.total_training_steps. What the learning rate is may
            depend on it.
    """

    def __init__(self, config: Any, *, path: str | Path | None = None, total_steps: int | None = None) -> None:
        self._path = None if path is None else str(path)
        self._total_steps = total_steps or config.trainer.total_training_steps
        self.updates = 0
        super().__init__(config)

    def _update(self, model: Any, name: str, optim: Any, batch: DataProto) -> dict[str, Any]:
        if self._total_steps is None and not is_constant(optim):
            raise ConfigError(
                "the learning rate depends on how many updates there will be",
                "pass total_steps=, or set trainer.total_training_steps",
            )
        tokens = batch.batch["attention_mask"].sum(dim=-1).tolist()
        batch = DataProto(batch.batch, batch.non_tensor_batch, {"global_token_num": tokens, **batch.meta_info})
        with without_running_loop(), same_random_numbers(f"{self.config.local.seed} {self.updates} {name}"):
            metrics: dict[str, Any] = model.update(batch)
        self.updates += 1
        return reduce_over_ranks(metrics, self.ranks)


class LocalPolicy(Trained):
    """The model that is trained.

    Attributes:
        module: the model of transformers.
    """

    def _build(self, around: ExitStack) -> None:
        path = self._path or self.config.actor_rollout_ref.model.path
        self.policy = Policy(self.config, self.tokenizer, self.ranks, path, self._total_steps or 1)
        self.module = self.policy.module

    def compute_log_prob(self, batch: DataProto) -> DataProto:
        """Compute the log-probability of each response token, and the entropy there.

        Args:
            batch: responses to prompts, as `LocalRollouts.generate_sequences` returns them.

        Returns:
            old_log_probs and entropys, (bs, response_length) float32.
        """
        return self.ranks.spread(self.policy.compute_log_prob, batch)

    def update(self, batch: DataProto) -> dict[str, Any]:
        """Train on a batch, once: all its mini-batches, ppo_epochs times.

        Args:
            batch: with advantages, response_mask, old_log_probs and, if actor.use_kl_loss, ref_log_prob, all
                (bs, response_length).

        Returns:
            Metrics by upstream's names: actor/...
        """
        return self._update(self.policy, "actor", self.config.actor_rollout_ref.actor.optim, batch)


if CRITIC:

    class LocalCritic(Trained):
        """The model that estimates values.

        Attributes:
            module: the model of transformers.
        """

        def _build(self, around: ExitStack) -> None:
            self.critic = Critic(self.config, self.tokenizer, self.ranks, self._path, self._total_steps or 1)
            self.module = self.critic.module

        def compute_values(self, batch: DataProto) -> DataProto:
            """Compute the value at each response token: values, (bs, response_length) float32."""
            return self.ranks.spread(self.critic.compute_values, batch)

        def update(self, batch: DataProto) -> dict[str, Any]:
            """Train on a batch, once: all its mini-batches, ppo_epochs times.

            Args:
                batch: with values, returns and response_mask, all (bs, response_length).

            Returns:
                Metrics by upstream's names: critic/...
            """
            return self._update(self.critic, "critic", self.config.critic.optim, batch)


class LocalReference(Part):
    """The model that the policy is held close to. It is not trained.

    Args:
        config: the whole config, from `load_config`. It is copied.
        policy: if it trains an adapter, the reference is its model without the adapter, and costs no memory.
    """

    def __init__(self, config: Any, *, policy: LocalPolicy | None = None) -> None:
        self._policy = policy
        super().__init__(config)

    def _build(self, around: ExitStack) -> None:
        policy = None if self._policy is None else self._policy.policy
        self.reference = Reference(self.config, self.tokenizer, self.ranks, policy)

    def compute_log_prob(self, batch: DataProto) -> DataProto:
        """Compute the log-probability of each response token: ref_log_prob, (bs, response_length) float32."""
        return self.ranks.spread(self.reference.compute_log_prob, batch)


class LocalRollouts(Part):
    """Writes responses by the project's engine: in this process or by a server, as the config says.

    Args:
        config: the whole config, from `load_config`. It is copied.
        engine: hf, vllm or sglang, if it is to be checked that it is this one.
        policy: whose weights it takes; `sync_weights` takes them again after an update. None: the model at `path`.
        path: a directory with the weights, such as .../global_step_20/actor; None: the configured model.

    Raises:
        ConfigError: the project has another engine.
    """

    def __init__(
        self,
        config: Any,
        *,
        engine: str | None = None,
        policy: LocalPolicy | None = None,
        path: str | Path | None = None,
    ) -> None:
        if engine is not None:
            check_choice("actor_rollout_ref.rollout.name", engine)
        self._policy, self._path = policy, path
        self._calls = 0
        super().__init__(config)

    def _build(self, around: ExitStack) -> None:
        path = str(self._path or self.config.actor_rollout_ref.model.path)
        if self._policy is None:
            self.policy = Policy(self.config, self.tokenizer, self.ranks, path, 1)
        else:
            self.policy = self._policy.policy
        warn_about_sampling(self.policy.module, self.config, self.ranks)
        engine = build_rollout_engine(self.config, self.tokenizer, self.ranks, self.policy)
        around.enter_context(contextlib.closing(engine))
        self.rollouts = Rollouts(self.config, self.ranks, engine)
        if EPISODES:
            play_episodes(self.rollouts, self.config, self.tokenizer)

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
        with without_running_loop(), self._own_random_numbers():
            return answer(self.rollouts, self.config, self.tokenizer, prompts, n, **meta)

    def generate(self, prompts: Iterable[Any], *, n: int = 1, do_sample: bool | None = None) -> list[str]:
        """Write responses, as text: see `generate_sequences`."""
        return texts_of(self.generate_sequences(prompts, n=n, do_sample=do_sample), self.tokenizer)

    def sync_weights(self) -> None:
        """Take over the policy's weights, which have changed."""
        self.require_open()
        with without_running_loop():
            self.rollouts.sync_weights()


def is_constant(optim: Any) -> bool:
    """Tell whether the learning rate of an `optim` section does not depend on how many steps there are."""
    warms_up = optim.lr_warmup_steps < 0 and optim.lr_warmup_steps_ratio > 0
    return lr_schedule(optim) == "constant" and not warms_up
