# vextract:template - edit freely
"""The training loop: upstream's `RayPPOTrainer.fit`, in upstream's order and with upstream's metric names, without Ray.

Every number comes from a vendored function. One step is: prompts -> responses -> reward -> old log-probabilities ->
reference log-probabilities -> KL penalty -> advantages -> update -> metrics.
"""

import contextlib
import copy
import random
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig

from ..errors import ConfigError
from ..hook_effects import SharedState
from ..hooks import ESTIMATOR, AtHand, at_hand, calling, check_advantages, prepare
from ..registries import compute_advantage
from ..run.distributed import Ranks, random_state, same_random_numbers, set_random_state
from ..run.process import without_running_loop
from ..switches import (
    CRITIC,
    DISTILLATION,
    DYNAMIC_BSZ,
    DYNAMIC_SAMPLING,
    GIVEN_OBJECTS,
    HF,
    HOOK_CHECKS,
    OVERLAP,
    PRIME,
    RESCUE,
    REWARD_LOGS,
    ROLLOUT_CORRECTION,
    SFT,
    STEP_HOOKS,
    WATCH,
)
from ..tracking import timed
from ..tracking.run_tracker import as_numbers
from ..tracking.terminal import validation_score
from ..vendored.algorithms.core_algos import agg_loss, get_kl_controller
from ..vendored.algorithms.metric_utils import compute_data_metrics, compute_throughout_metrics
from ..vendored.algorithms.trainer_functions import apply_kl_penalty
from ..vendored.protocol import DataProto
from ..workers.policy import Policy, Reference
from ..workers.role_configs import TAKES_OWN_LOG_PROBS
from ..workers.trained_model import reduce_over_ranks
from .assembly import assemble
from .balance import balance_batch
from .batches import (
    add_columns,
    group_metrics,
    reward_metrics,
    rollout_metrics,
    shown_rows,
)
from .callbacks import Callbacks, listed
from .divergence_check import DivergenceCheck
from .dynamic_sampling import choice_of, collect
from .generation import generate_texts
from .given import Given
from .given_datasets import batch_of, loader_of
from .overlap import OverlappedAnswers
from .rescue import sync_weights
from .rollout_correction import correct, take_rollout_log_probs
from .rollout_watch import RolloutWatch
from .rollouts import Answers, Metrics
from .run_loop import RunLoop
from .sample_files import log_training_samples, write_rows
from .suspects import Suspects
from .validation import answer_and_score, validation_metrics


class LocalPPOTrainer(RunLoop):
    """Trains a policy by PPO and its relatives, in one process or in several that all run this same loop.

    Whatever of data, rewards and models is not given is what the config says. `fit` takes the prompts and loads the
    models. A trainer holds a model and an engine: use it in a `with` statement, or `close` it.

    Args:
        config: the whole config, from `load_config`. It is copied.
        ranks: this process among its peers, of a program that ends with the run.
        given: what stands in place of what the config says, such as reward_fn; see `given.py`.

    Attributes:
        policy, reference, models, rollouts, reward_fn, val_reward_fn, train_loader, val_loader, checkpoints,
            total_steps, and others: see `training/assembly.py`. Those of the run: see `RunLoop`. They are there once
            the run is assembled: by `fit`, or where one of them is asked for.

    Raises:
        ConfigError: `config` is of another type, or an argument takes a feature.
    """

    tokenizer: Any
    policy: Policy
    reference: Reference | None
    reward_fn: Any
    val_reward_fn: Any
    val_loader: Any
    if CRITIC:
        critic: Any
    if PRIME:
        process_rewards: Any
    if DISTILLATION:
        distillation: Any

    def __init__(self, config: Any, *, ranks: Ranks | None = None, **given: Any) -> None:
        if not isinstance(config, DictConfig):
            raise ConfigError(
                f"the config is of type {type(config).__name__}", "give what load_config() returns, with your settings"
            )
        self._given = Given.of(given)
        if GIVEN_OBJECTS:
            self._given = replace(self._given, callbacks=listed(self._given.callbacks))
        self.config = copy.deepcopy(config)
        self.ranks = ranks or Ranks.of_process(config)
        self._around = contextlib.ExitStack()
        if ranks is None:
            self._around.callback(self.ranks.close)
        self._end = weakref.finalize(self, self._around.close)
        self._is_assembled = False

    def __getattr__(self, name: str) -> Any:
        """Assemble the run where a part of it is asked for before `fit`."""
        if name.startswith("_") or self._is_assembled:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self.assemble()
        return getattr(self, name)

    def assemble(self, dataset: Any = None, val_dataset: Any = None) -> None:
        """Assemble the run, once: read the prompts and load the models.

        Args:
            dataset, val_dataset: prompts for training and validation, see `given.py`; None: what the config says.

        Raises:
            ConfigError: settings contradict each other, or what they name cannot be used; or there are prompts already.
            DataError: the data cannot be used.
            HookError: a hook cannot be imported, or raised.
        """
        self.require_open()
        if self._is_assembled:
            if dataset is not None or val_dataset is not None:
                raise ConfigError("the run has its prompts already", "give them to the first fit(), or make a trainer")
            return
        given = replace(self._given, train_dataset=dataset, val_dataset=val_dataset)
        self._is_assembled, before = True, copy.deepcopy(self.config)
        try:
            with contextlib.ExitStack() as around, without_running_loop():
                state = self._parts(given, around) if SFT else assemble(self, given, around)
                self._set_up_steps(state)
                self._around.push(around.pop_all())
        except BaseException:  # the next call may bring what was wrong
            self._is_assembled, self.config = False, before
            raise

    if SFT:

        def _parts(self, given: Given, around: contextlib.ExitStack) -> tuple[Any, ...]:
            """Put the parts of the run together; returns what a checkpoint has, see `training/assembly.py`."""
            return assemble(self, given, around)

    def _set_up_steps(self, state: tuple[Any, ...]) -> None:
        """Set up what belongs to the steps, from `state` if the run resumes."""
        config = self.config
        self.rollout_n = config.actor_rollout_ref.rollout.n
        self.kl_ctrl = get_kl_controller(config.algorithm.kl_ctrl)
        self.ids = random.Random(config.local.seed)
        if STEP_HOOKS:
            self.kept = SimpleNamespace()  # what the owner's hooks keep between steps
            self.left_out = 0  # batches in a row of which these have kept nothing
        if OVERLAP:
            self.background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reward")
        if WATCH:
            self.suspects = Suspects(self.ranks, self.tokenizer, self.checkpoints.directory / "not_finite")
            self.divergence = DivergenceCheck(self.ranks, self.models, self.suspects)
            self.watch = RolloutWatch(config, self.ranks, self.policy, lambda text: self.tracker.message(text))
        if DYNAMIC_SAMPLING:
            self.reported: set[str] = set()  # the components of the reward that filter_groups has seen
        self.answers = OverlappedAnswers(self) if OVERLAP else Answers(self)
        if GIVEN_OBJECTS:
            self.callbacks = Callbacks(self._given.callbacks, self)
        self.begin(state)

    def train_step(self, prompts: Any, timing: dict[str, float] | None = None) -> tuple[DataProto, Metrics]:
        """Do one step, from prompts to updated weights.

        The comments below name the phases, as in `timing`, and list what each adds to `batch.batch`. There are bs rows,
        `rollout.n` for each prompt; P and R are data.max_prompt_length and data.max_response_length.
        `batch.non_tensor_batch` has the columns of the prompts, `uid` (which prompt a row belongs to) and, after adv,
        what the reward says besides the score. Phases that the config does not need are skipped.

        Args:
            prompts: a batch of the data loader: tensors (prompts, max_prompt_length) and arrays of the other columns.
            timing: receives the seconds that each phase took.

        Returns:
            The global batch with everything that was computed for it, and the metrics so far.
        """
        self.require_open()
        metrics: Metrics = {}
        ranks, step = self.ranks, self.steps_done + 1
        timing = {} if timing is None else timing
        self._seed = f"{self.config.local.seed} {self.steps_done}"  # the same on all processes, whatever their number
        if GIVEN_OBJECTS and not isinstance(prompts, dict):
            prompts = batch_of(prompts, self.config, self.tokenizer)
        if HOOK_CHECKS:
            shared = SharedState(self.config, self.steps_done)
        with timed("step", timing), without_running_loop():
            # gen: `prompts` (bs, P), `responses` and `response_mask` (bs, R), and of both together `input_ids`,
            # `attention_mask` and `position_ids` (bs, P + R), int64; maybe `rollout_log_probs` (bs, R) float32.
            if DYNAMIC_SAMPLING and (choose := choice_of(self)) is not None:
                batch, reward = collect(self, choose, prompts, timing, metrics)
            else:
                batch = self.answers.answer(prompts, timing, metrics)
                if DYNAMIC_BSZ:
                    self.arrange(batch, metrics)
                else:
                    batch.meta_info["global_token_num"] = batch.batch["attention_mask"].sum(dim=-1).tolist()
                with timed("reward", timing):
                    reward = self.answers.begin_reward(batch) if OVERLAP else self.answers.score(batch)
            if WATCH or not HF:
                of_engine = self.watch.take(batch) if WATCH else batch.batch.get("rollout_log_probs")

            # old_log_prob: `old_log_probs` and `entropys` (bs, R) float32, of the policy before the update.
            is_known = self._needs_old_log_probs(len(batch))
            if WATCH or not HF:
                is_known = is_known or "rollout_log_probs" in batch.batch.keys()
            if ROLLOUT_CORRECTION and take_rollout_log_probs(batch, self.config):
                is_known = False
            if is_known:
                with timed("old_log_prob", timing):
                    output = ranks.spread(self.policy.compute_log_prob, batch)
                    mode = self.config.actor_rollout_ref.actor.loss_agg_mode
                    entropys = output.batch["entropys"]
                    metrics["actor/entropy"] = agg_loss(entropys, batch.batch["response_mask"], mode).item()
                    batch = batch.union(output)
            if WATCH:
                if of_engine is not None and (is_known or self.watch.due(step)):
                    with timed("watch", timing):
                        behind = metrics.get("training/steps_behind", 0)
                        metrics.update(self.watch.look(batch, of_engine, is_known=is_known, behind=behind))
            elif not HF:
                if of_engine is not None and is_known:
                    mask = batch.batch["response_mask"].bool()
                    metrics.update(rollout_metrics(of_engine, batch.batch["old_log_probs"], mask))

            # ref: `ref_log_prob` (bs, R) float32, for a KL penalty or loss.
            if self.reference is not None:
                with timed("ref", timing):
                    batch = batch.union(ranks.spread(self.reference.compute_log_prob, batch))

            # values: `values` (bs, R) float32, of the critic.
            if CRITIC and self.critic is not None:
                with timed("values", timing):
                    batch = batch.union(ranks.spread(self.critic.compute_values, batch))

            # teacher: `teacher_logprobs` and `teacher_ids` (bs, P + R, k), for distillation.
            if DISTILLATION and self.distillation is not None:
                with timed("teacher", timing):
                    self.distillation.add(batch)

            # adv: `token_level_scores`, `token_level_rewards`, `advantages` and `returns` (bs, R) float32.
            with timed("adv", timing):
                batch, advantage_metrics = self._advantages(batch, reward)
                metrics.update(advantage_metrics)
            if STEP_HOOKS:
                self.left_out = 0 if len(batch) else self.left_out + 1
                if not len(batch):
                    if self.left_out >= min(len(self.train_loader), 500):
                        text = f"functions with @before_phase have kept nothing of {self.left_out} batches in a row"
                        raise ConfigError(text, "look at what they leave out, in custom/algorithms.py")
                    return self.train_step(next(self.prompts), timing)
            if WATCH:
                self.suspects.batch = batch

            # reward_model: `process_rewards` (bs, R) float32; and `advantages` and `returns` with them (PRIME).
            if PRIME and self.process_rewards is not None:
                with timed("reward_model", timing), same_random_numbers(f"{self._seed} reward_model"):
                    metrics.update(self.process_rewards.add(batch))
                if WATCH:
                    self.divergence.after_update("reward_model", metrics, step)
                else:
                    self.models["reward_model"].require_usable(ranks)

            # update_critic: the critic learns the returns.
            if CRITIC and self.critic is not None:
                with timed("update_critic", timing):
                    with same_random_numbers(f"{self._seed} critic"):
                        critic_metrics = self.critic.update(batch)
                metrics.update(reduce_over_ranks(critic_metrics, ranks))
                if WATCH:
                    self.divergence.after_update("critic", metrics, step)
                else:
                    self.critic.require_usable(ranks)

            # update_actor: the policy learns, and the engine gets its weights.
            if not CRITIC or self.config.trainer.critic_warmup <= step:
                with timed("update_actor", timing):
                    with same_random_numbers(f"{self._seed} actor"):
                        actor_metrics = self.policy.update(batch)
                    metrics.update(reduce_over_ranks(actor_metrics, ranks))
                    if WATCH:
                        self.divergence.after_update("actor", metrics, step)
                    else:
                        self.policy.require_usable(ranks)
                    if RESCUE:
                        sync_weights(self)
                    else:
                        self.rollouts.sync_weights()
        metrics.update(compute_data_metrics(batch, use_critic=CRITIC and self.critic is not None))
        metrics.update(compute_throughout_metrics(batch, timing, n_gpus=ranks.world_size))
        if HOOK_CHECKS:
            shared.put_back()
        self.steps_done, self.score = step, None
        return batch, metrics

    if GIVEN_OBJECTS:

        def evaluate(self, dataset: Any = None) -> dict[str, float]:
            """Answer prompts as validation does, and score the answers.

            Args:
                dataset: see `given.py`; None: the one that validation is done with.

            Returns:
                Metrics by upstream's names: val-core/..., val-aux/...
            """
            loader = None if dataset is None else loader_of(dataset, self.config, self.tokenizer, self.ranks)
            return as_numbers(self.validate(loader))

        @without_running_loop()
        def generate(self, prompts: Iterable[Any], *, n: int = 1, do_sample: bool = True) -> list[str]:
            """Write responses with the weights of now. Leaves the global random state as it was.

            Args:
                prompts: texts, or lists of messages.
                n: responses to each, one behind the other.
                do_sample: whether they are drawn, as in training; otherwise the likeliest token is taken each time.
            """
            self.require_open()
            return generate_texts(self.rollouts, self.config, self.tokenizer, prompts, n, do_sample)

    @without_running_loop()
    def validate(self, loader: Any = None) -> Metrics:
        """Answer the validation prompts and score the answers. Leaves the global random state as it was."""
        self.require_open()
        before = random_state()
        if HOOK_CHECKS:
            shared = SharedState(self.config, self.steps_done)
        rows, infos = answer_and_score(self, self.val_loader if loader is None else loader)
        if HOOK_CHECKS:
            shared.put_back()
        metrics = validation_metrics(rows, infos)
        set_random_state(before)
        self.score = validation_score(metrics)
        self.tracker.log_generations(shown_rows(rows, self.config.trainer.log_val_generations), self.steps_done)
        if REWARD_LOGS and self.config.trainer.validation_data_dir and self.ranks.rank == 0:
            write_rows(self.config.trainer.validation_data_dir, self.steps_done, rows)
        return metrics

    if DYNAMIC_BSZ or DYNAMIC_SAMPLING or SFT:

        def arrange(self, batch: DataProto, metrics: Metrics) -> None:
            """Order the rows for the processes, if so configured, and note how long they are."""
            if DYNAMIC_BSZ and self.config.trainer.balance_batch:
                metrics.update(balance_batch(batch, self.ranks.world_size))
            batch.meta_info["global_token_num"] = batch.batch["attention_mask"].sum(dim=-1).tolist()

    if WATCH:

        def looks_at_engine(self, step: int) -> bool:
            """Tell whether anything will look at the engine's log-probabilities of a step's responses."""
            rollout = self.config.actor_rollout_ref.rollout
            responses = self.config.data.train_batch_size * self.rollout_n
            is_compared = self._needs_old_log_probs(responses) or self.watch.due(step)
            return bool(rollout.calculate_log_probs or (self.watch.settings.enable and is_compared))

    def _needs_old_log_probs(self, responses: int) -> bool:
        """Tell whether anything uses, or the config asks for, the policy's log-probabilities before the update."""
        asked = self.config.local.recompute_old_log_probs or self.config.algorithm.use_kl_in_reward
        actor = self.config.actor_rollout_ref.actor
        is_only_update = responses <= actor.ppo_mini_batch_size * self.rollout_n and actor.ppo_epochs == 1
        return bool(asked or not (TAKES_OWN_LOG_PROBS and is_only_update))

    def _advantages(self, batch: DataProto, reward: Any) -> tuple[DataProto, Metrics]:
        """Add the reward, and from it `advantages` and `returns`, (bs, response_length), over the global batch."""
        algorithm = self.config.algorithm
        if OVERLAP and not isinstance(reward, tuple):  # it may have been computed meanwhile
            reward = self.ranks.on_driver(lambda: reward.result())
        scores, extra = reward
        metrics: Metrics = {**reward_metrics(extra), **group_metrics(batch.non_tensor_batch["uid"], scores)}
        batch.batch["token_level_scores"] = scores
        add_columns(batch, extra)
        if algorithm.use_kl_in_reward:
            batch, kl_metrics = apply_kl_penalty(batch, kl_ctrl=self.kl_ctrl, kl_penalty=algorithm.kl_penalty)
            metrics.update(kl_metrics)
        else:
            batch.batch["token_level_rewards"] = scores
        if ROLLOUT_CORRECTION:
            batch, correction_metrics = correct(batch, self.config)
            metrics.update(correction_metrics)
        elif WATCH or not HF:
            batch.batch.pop("rollout_log_probs", None)
        if STEP_HOOKS:
            now = AtHand(batch, self.config, self.steps_done + 1, self.total_steps, self.tokenizer, self.kept)
            at_hand.set(now)
        if REWARD_LOGS and self.ranks.rank == 0:
            log_training_samples(self, batch, scores.sum(dim=-1).tolist(), extra)
        with calling(ESTIMATOR, algorithm.adv_estimator), same_random_numbers(f"{self._seed} advantages"):
            if STEP_HOOKS:
                batch = prepare("advantages", now)
                if not len(batch):
                    return batch, metrics
                at_hand.set(now._replace(batch=batch))
            batch = compute_advantage(
                batch,
                adv_estimator=algorithm.adv_estimator,
                gamma=algorithm.gamma,
                lam=algorithm.lam,
                num_repeat=self.rollout_n,
                norm_adv_by_std_in_grpo=algorithm.norm_adv_by_std_in_grpo,
                config=algorithm,
            )
        check_advantages(batch, algorithm.adv_estimator, self.tokenizer)
        if STEP_HOOKS:
            batch = prepare("update", now._replace(batch=batch))
            batch.meta_info["global_token_num"] = batch.batch["attention_mask"].sum(dim=-1).tolist()
        return batch, metrics
