# vextract:template base/__package__/training/trainer.py - edit freely
"""The training loop: upstream's `RayPPOTrainer.fit`, in upstream's order and with upstream's metric names, without Ray.

Every number comes from a vendored function. One step is: prompts -> responses -> reward -> old log-probabilities ->
reference log-probabilities -> values -> KL penalty -> advantages -> critic update -> actor update -> metrics.
"""

import contextlib
import copy
import random
import uuid
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from ..api.assembly import assemble, load_parts
from ..api.datasets import batch_of, loader_of
from ..api.generation import generate_texts
from ..api.given import Given
from ..episodes.outcomes import episode_metrics
from ..errors import ConfigError
from ..features import balance_batch, correct, take_rollout_log_probs
from ..run.checkpoint import Checkpoints
from ..run.checkpoint_state import CheckpointError, check_storable, restoring
from ..run.distributed import Ranks, random_state, same_random_numbers, seed_everything, set_random_state
from ..run.event_loops import without_running_loop
from ..run.failures import add_note, notes_on
from ..run.interrupts import StopRequested, StopSignal
from ..run.next_steps import noting_checkpoint
from ..run.run_lock import lock_run_directory
from ..run.stray_errors import stray_errors_in
from ..run.watch import is_connection_error
from ..settings import reward_keys
from ..tracking.run_tracker import RunTracker, as_numbers
from ..tracking.terminal import validation_score
from ..tracking.timing import advance, expect, timed, under_way
from ..vendored.algorithms.core_algos import agg_loss, get_kl_controller
from ..vendored.algorithms.metric_utils import compute_data_metrics, compute_throughout_metrics, compute_timing_metrics
from ..vendored.algorithms.trainer_functions import apply_kl_penalty, compute_response_mask
from ..vendored.protocol import DataProto
from ..workers.metrics import reduced
from ..workers.rollout_interface import RolloutError
from .batches import add_columns, generation_batch, sample_rows, shown_rows, shown_training_rows, write_rows
from .callbacks import Callbacks
from .divergence import DivergenceCheck, DivergenceError
from .dynamic_sampling import Scored, group_metrics, sample_until_full
from .hook_calls import calling_estimator
from .hook_errors import call_reward, check_advantages, reward_metrics
from .registries import AdvantageEstimator, compute_advantage
from .results import Step, TrainResult
from .rollout_check import rollout_metrics
from .suspects import Suspects
from .validation import validation_metrics

Metrics = dict[str, Any]
Reward = tuple[torch.Tensor, dict[str, list[Any]]]
TRAINING_SAMPLES_AT = 100  # steps of a run


class LocalPPOTrainer:
    """Trains a policy by PPO and its relatives, in one process or in several that all run this same loop.

    Whatever of data, rewards and models is not given is what the config says. A trainer holds a model and an engine:
    use it in a `with` statement, or `close` it.

    Args:
        config: the whole config, from `load_config`. It is copied.
        train_dataset, val_dataset: prompts; see `api/datasets.py` for what they may be.
        reward_fn: scores responses; see `api/rewards.py`. `val_reward_fn` does so in validation, if that differs.
        reward_weights: of several reward functions.
        environment: gives prompts, rewards or turns; see `api/environments.py`.
        model: a causal language model of transformers that is loaded already; it is trained in place.
        tokenizer: of that model.
        callbacks: are told what happens, as transformers' `TrainerCallback` describes, and may have the run stop.
        ranks: this process among its peers, of a program that ends with the run.

    Attributes:
        policy, reference, critic, rollouts, reward_fn, val_reward_fn, train_loader, val_loader, checkpoints,
            total_steps: see `api/assembly.py`.
        steps_done: how many steps the weights have behind them.
        finished: whether the last step has been reached.

    Raises:
        ConfigError: settings contradict each other, or what they name cannot be used.
        DataError: the data cannot be used.
        HookError: a hook cannot be imported, or raised.
    """

    def __init__(
        self,
        config: Any,
        *,
        train_dataset: Any = None,
        val_dataset: Any = None,
        reward_fn: Any = None,
        val_reward_fn: Any = None,
        reward_weights: Any = None,
        environment: Any = None,
        model: Any = None,
        tokenizer: Any = None,
        callbacks: Iterable[Any] = (),
        ranks: Ranks | None = None,
    ) -> None:
        rewards, weights = (reward_fn, val_reward_fn), reward_weights
        given = Given(train_dataset, val_dataset, *rewards, weights, environment, model, tokenizer)
        self.config = config = copy.deepcopy(config)
        self.ranks = ranks or Ranks.of_process(config.actor_rollout_ref.nccl_timeout, config.local.peer_timeout)
        self._is_program = ranks is not None
        with contextlib.ExitStack() as around, without_running_loop():
            if ranks is None:
                around.callback(self.ranks.close)
            parts = assemble(config, self.ranks, given, around)
            self.tokenizer = parts.tokenizer
            self.policy = parts.policy
            self.reference = parts.reference
            self.critic = parts.critic
            self.rollouts = parts.rollouts
            self.reward_fn = parts.reward_fn
            self.val_reward_fn = parts.val_reward_fn
            self.train_loader = parts.train_loader
            self.val_loader = parts.val_loader
            self.checkpoints = parts.checkpoints
            self.total_steps = parts.total_steps
            self.resumed_from = parts.resumed_from
            self._base_models = parts.base_models
            self._lock = parts.lock
            self.tracker = RunTracker(config, self.checkpoints.directory, self.total_steps, active=False)
            self.steps_done = 0
            self.finished = False
            self.rollout_n = config.actor_rollout_ref.rollout.n
            self.kl_ctrl = get_kl_controller(config.algorithm.kl_ctrl)
            self.ids = random.Random(config.local.seed)
            self.background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reward")
            suspects = Suspects(self.ranks, self.tokenizer, self.checkpoints.directory / "not_finite")
            self.divergence = DivergenceCheck(self.ranks, self.policy, self.critic, suspects)
            self.callbacks = Callbacks(callbacks, self)
            self.failure: Exception | None = None  # after a step's last update, so that the step counts
            self.score: float | None = None  # of validation after the last step; None: there was none
            self._missing_row: dict[str, Any] | None = None
            self._has_run = self._is_running = False
            self._prompts = self._batches()
            if parts.resumed_from is not None:
                with restoring(parts.resumed_from):
                    self.restore(*parts.state)
            self._remembered: dict[str, Any] = {"steps": self.steps_done, "random": random_state()}
            self._end = weakref.finalize(self, around.pop_all().close)

    def __enter__(self) -> "LocalPPOTrainer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the rollout engine and what else runs beside this process. Calling it again does nothing."""
        with without_running_loop():
            self._end()

    def fit(self) -> TrainResult:
        """Train until the last step, or until asked to stop, in which case a checkpoint is saved.

        Raises:
            HookError: a hook raised, or returned what cannot be used.
            DivergenceError: the weights or a gradient are no longer finite.
            CheckpointError: a checkpoint cannot be written.
        """
        for _ in self.steps():
            pass
        return TrainResult(self.checkpoints, finished=self.finished, steps=self.steps_done)

    def steps(self) -> Iterator[Step]:
        """Train step by step, as `fit` does: the run ends with the loop over this.

        Yields:
            After each step, its number, its metrics and its batch. What is done there does not change the next step,
            unless it changes the trainer.
        """
        trainer = self.config.trainer
        if self.steps_done >= self.total_steps and not trainer.val_only:
            if self.ranks.rank == 0:
                place = self.resumed_from or "the model"
                print(f"nothing to do: {place} is at step {self.steps_done} of {self.total_steps}")
                print("hint: set trainer.total_training_steps higher, or trainer.resume_mode=disable to start anew")
            self.finished = True
            return
        with self._running(), StopSignal(ends_process=self._is_program) as stop:
            if self._remembered["steps"] == self.steps_done:  # what the caller has drawn since then changes nothing
                set_random_state(self._remembered["random"])
            self.callbacks("on_train_begin")
            if trainer.val_only or (trainer.val_before_train and self.steps_done == 0):
                self.tracker.log(self.validate(), step=self.steps_done)
            self._remember_state()
            self.finished = bool(trainer.val_only)
            trains = not (trainer.val_only or self.ranks.any(stop.requested))  # validating may have taken long
            first, self._prompts = self.steps_done + 1, self._batches()
            for prompts in self._prompts if trains else ():
                self.callbacks("on_step_begin")
                timing: dict[str, float] = {}
                try:
                    with self._saving_if_unchanged():
                        batch, metrics = self.train_step(prompts, timing)
                except StopRequested as stopped:  # while it waited for others: the step is done when the run goes on
                    self.tracker.message("\n".join(notes_on(stopped)))
                    break
                step, is_last = self.steps_done, self.steps_done >= self.total_steps
                self.divergence.remember(batch)
                self.callbacks("on_step_end")
                if self.failure is None and (self._is_due(trainer.test_freq) or self.callbacks.asked("evaluate")):
                    with timed("testing", timing):
                        metrics.update(self._try_validation())
                metrics.update({"training/global_step": step, "training/epoch": (step - 1) // len(self.train_loader)})
                if not is_last and hasattr(self.train_loader.dataset, "on_batch_end"):  # rank 0 alone has a dataset
                    self.train_loader.dataset.on_batch_end(batch=batch)
                self._remember_state()
                if step == first:
                    self.ranks.on_driver(lambda: check_storable(self._remembered["data"]), patient=True)
                stopping = (self.ranks.any(stop.requested) or self.callbacks.asked("training_stop")) and not is_last
                ends = stopping or is_last or self.failure is not None
                self.checkpoints.raise_failure()
                if stopping or self.failure is not None or self._is_to_be_saved() or self.callbacks.asked("save"):
                    # A run that is killed before the step is logged logs it when it goes on.
                    self._remembered["row"] = as_numbers({**metrics, **compute_timing_metrics(batch, timing)})
                    with timed("save_checkpoint", timing):
                        self.save(in_background=not ends)
                metrics.update(compute_timing_metrics(batch, timing))
                self.tracker.log(metrics, step)
                self.callbacks("on_log", logs=metrics)
                if self.failure is not None and not isinstance(self.failure, StopRequested):
                    add_note(self.failure, f"The state after step {step} is saved: {self.checkpoints.directory}")
                    raise self.failure
                self.finished = is_last
                yield Step(step, as_numbers(metrics), batch)
                set_random_state(self._remembered["random"])
                if ends:
                    break
            self.callbacks("on_train_end")

    def train_step(self, prompts: Any, timing: dict[str, float] | None = None) -> tuple[DataProto, Metrics]:
        """Do one step, from prompts to updated weights.

        The phases, as `timing` names them, and what `batch.batch` has after each that it had not before. There are bs
        rows, `rollout.n` for each prompt; P and R are data.max_prompt_length and data.max_response_length.

            gen           prompts                                                       (bs, P)      int64
                          responses, response_mask                                      (bs, R)      int64
                          input_ids, attention_mask, position_ids                       (bs, P + R)  int64
            old_log_prob  old_log_probs                                                 (bs, R)      float32
            ref           ref_log_prob                                                  (bs, R)      float32
            values        values                                                        (bs, R)      float32
            adv           token_level_scores, token_level_rewards, advantages, returns  (bs, R)      float32

        `batch.non_tensor_batch` has the columns of the prompts, `uid` (which prompt a row belongs to) and, after adv,
        what the reward says besides the score. A phase is left out where nothing that is configured needs it.

        Args:
            prompts: a batch of the data loader: tensors (prompts, max_prompt_length) and arrays of the other columns.
                Or rows, as a dataset has them.
            timing: receives the seconds that each phase took.

        Returns:
            The global batch with everything that was computed for it, and the metrics so far.
        """
        config, ranks, metrics = self.config, self.ranks, Metrics()
        timing = {} if timing is None else timing
        if not isinstance(prompts, dict):
            prompts = batch_of(prompts, config, self.tokenizer)
        with timed("step", timing), without_running_loop():
            if config.algorithm.filter_groups.enable:
                batch, reward = self._collect_filtered(prompts, timing, metrics)
            else:
                batch, reward = self._collect(prompts, timing, metrics)
            if not take_rollout_log_probs(batch, config) and self._needs_old_log_probs(batch):
                with timed("old_log_prob", timing):
                    batch, entropy = self._old_log_probs(batch)
                    metrics.update({"actor/entropy": entropy, **rollout_metrics(batch)})
            if self.reference is not None:
                with timed("ref", timing):
                    batch = batch.union(ranks.spread(self.reference.compute_log_prob, batch))
            if self.critic is not None:
                with timed("values", timing):
                    batch = batch.union(ranks.spread(self.critic.compute_values, batch))
            with timed("adv", timing):
                batch, advantage_metrics = self._advantages(batch, reward)
                metrics.update(advantage_metrics)
            if self.critic is not None:
                with timed("update_critic", timing):
                    with self._same_random_numbers("critic"):
                        critic_metrics = self.critic.update(batch)
                metrics.update(reduced(critic_metrics, ranks))
                self.divergence.after_update("critic", self.critic, metrics, self.steps_done + 1, batch)
            if config.trainer.critic_warmup <= self.steps_done + 1:
                with timed("update_actor", timing):
                    with self._same_random_numbers("actor"):
                        actor_metrics = self.policy.update(batch)
                    metrics.update(reduced(actor_metrics, ranks))
                    self.divergence.after_update("actor", self.policy, metrics, self.steps_done + 1, batch)
                    with under_way("weights"):
                        self._sync_weights()
        metrics.update(compute_data_metrics(batch, use_critic=self.critic is not None))
        metrics.update(compute_throughout_metrics(batch, timing, n_gpus=ranks.world_size))
        self.steps_done, self.score = self.steps_done + 1, None
        return batch, metrics

    def evaluate(self, dataset: Any = None) -> dict[str, float]:
        """Answer prompts as validation does, and score the answers.

        Args:
            dataset: see `api/datasets.py`; None: the one that validation is done with.

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
        return generate_texts(self.rollouts, self.config, self.tokenizer, prompts, n, do_sample)

    @without_running_loop()
    @under_way("testing")
    def validate(self, loader: Any = None) -> Metrics:
        """Answer the validation prompts and score the answers. Leaves the global random state as it was."""
        loader = self.val_loader if loader is None else loader
        before = random_state()
        seed_everything(self.config.local.seed + self.ranks.rank)
        loader.generator.manual_seed(self.config.local.seed)
        kwargs = self.config.actor_rollout_ref.rollout.val_kwargs
        rows: list[dict[str, Any]] = []
        infos: dict[str, list[Any]] = defaultdict(list)
        expect(len(loader), "batches")
        for prompts in loader:
            batch = DataProto.from_single_dict(prompts)
            uids = np.array([str(len(rows) + index) for index in range(len(batch))], dtype=object)
            batch.non_tensor_batch["uid"] = uids
            batch = batch.repeat(kwargs.n, interleave=True)
            prompt_batch = generation_batch(batch)
            prompt_batch.meta_info.update(do_sample=kwargs.do_sample, validate=True, global_steps=self.steps_done)
            with under_way("gen"):
                batch = batch.union(self.rollouts.generate(prompt_batch))
            batch.meta_info.update(validate=True, global_steps=self.steps_done)
            with under_way("reward"):
                reward, extra = self.ranks.on_driver(partial(call_reward, self.val_reward_fn, batch, self.tokenizer))
            scores = reward.sum(dim=-1).tolist()
            infos["reward"].extend(scores)
            for name, values in extra.items():
                infos[name].extend(values)
            rows.extend(sample_rows(batch, scores, self.tokenizer))
            advance()
        metrics = validation_metrics(rows, infos)
        set_random_state(before)
        self.score = validation_score(metrics)
        shown = shown_rows(rows, infos, self.config.trainer.log_val_generations)
        self.tracker.log_generations(shown, self.steps_done)
        if self.config.trainer.validation_data_dir and self.ranks.rank == 0:
            write_rows(self.config.trainer.validation_data_dir, self.steps_done, rows, infos)
        return metrics

    def load(self, path: str | Path) -> Path:
        """Go back to a checkpoint, in place: weights, optimizers, data, random numbers and step are those it has.

        The run goes on from there, and sets aside what it does not continue, as one with `trainer.resume_mode` does.

        Args:
            path: a global_step_N directory; or a run's, of which the last complete checkpoint is taken.

        Returns:
            The checkpoint.

        Raises:
            ConfigError: there is none, it is damaged, or it does not fit this run; or a run is going on.
        """
        if self._is_running:
            raise ConfigError("a run is going on", "load between runs: after fit(), or outside the loop over steps()")
        with without_running_loop():
            start = self.checkpoints.chosen(path)
            with restoring(start):
                self.restore(*load_parts(self.checkpoints, start, self.policy, self.critic, self.ranks))
            self.rollouts.sync_weights()
        self.resumed_from, self.finished, self.failure = start, False, None
        self._has_run = False
        self._prompts = self._batches()
        self._remembered = {"steps": self.steps_done, "random": random_state()}
        return start

    def save(self, path: str | Path | None = None, *, in_background: bool = False) -> Path:
        """Save a checkpoint of the state after the last step.

        Args:
            path: a directory of its own for it; None: the run's.
            in_background: with `local.checkpoint.asynchronous`, return once all is copied, and write it meanwhile.

        Returns:
            The checkpoint: `path`/global_step_N.

        Raises:
            DivergenceError: the policy is not worth saving.
            CheckpointError: it cannot be written.
        """
        if "data" not in self._remembered or self._remembered["steps"] != self.steps_done:
            self._remember_state()
        self.divergence.before_saving()
        finished = self.steps_done >= self.total_steps and self.config.trainer.save_freq <= 0
        models = {"actor": self.policy} | ({"critic": self.critic} if self.critic is not None else {})
        state = {**self._remembered, "base_models": self._base_models}
        del state["steps"]
        checkpoints, in_background = self.checkpoints, in_background and path is None
        if path is not None:
            self.ranks.on_driver(lambda: Path(path).mkdir(parents=True, exist_ok=True))
            checkpoints = Checkpoints(Path(path), self.ranks, settings=checkpoints.settings)
        data = state.pop("data")
        saved = checkpoints.save(
            self.steps_done, models, data, state, self.score, finished=finished, in_background=in_background
        )
        self.callbacks("on_save")
        return saved

    def restore(self, step: int, trainer: dict[str, Any], data: Any, random_numbers: dict[str, Any] | None) -> None:
        """Go on after `step` steps, from the state in a checkpoint; the models' weights are loaded already."""
        self.steps_done = step
        self.train_loader.load_state_dict(data)
        if self.config.algorithm.kl_ctrl.type == "adaptive":  # the other one's coefficient is that of the config
            self.kl_ctrl.value = trainer["kl_coef"]
        self.ids.setstate(trainer["ids"])
        self.score = trainer["score"]
        if random_numbers is not None:
            set_random_state(random_numbers)
        self._missing_row = trainer.get("row")

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """Enter what a run has around it: its records, its lock, a note on its last checkpoint if it fails."""
        config, directory, processes = self.config, self.checkpoints.directory, self.ranks.world_size
        lock, self._lock = self._lock or lock_run_directory(directory, self.ranks), None
        with lock:
            if not (config.trainer.val_only or self._has_run):
                self.checkpoints.begin(self.resumed_from)
            self._has_run = True
            total, start = self.total_steps, self.steps_done
            self.tracker = RunTracker(config, directory, total, start_step=start, processes=processes)
            noting = noting_checkpoint(self.checkpoints, config, total)
            running = self._marked_running()
            with noting, stray_errors_in(directory), self.tracker, self.checkpoints, running:
                if start and self.resumed_from is not None:
                    self.tracker.message(f"resuming from {self.resumed_from}")
                if self._missing_row:
                    self.tracker.log_missing(self._missing_row, start)
                yield

    @contextlib.contextmanager
    def _marked_running(self) -> Iterator[None]:
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False

    def _is_due(self, every: int) -> bool:
        """Tell whether what is done every so many steps, and after the last one, is due after this one."""
        return every > 0 and (self.steps_done >= self.total_steps or self.steps_done % every == 0)

    def _is_to_be_saved(self) -> bool:
        """Tell whether the config asks for a checkpoint after this step."""
        is_last = self.steps_done >= self.total_steps
        return self._is_due(self.config.trainer.save_freq) or bool(is_last and self.config.local.save_last)

    def _batches(self) -> Iterator[dict[str, Any]]:
        """Yield batches of prompts, epoch after epoch, until the last step."""
        while self.steps_done < self.total_steps:
            yield from self.train_loader

    @contextlib.contextmanager
    def _saving_if_unchanged(self) -> Iterator[None]:
        """If a step fails within it before any weight has changed, save the state from before the step."""
        stepped: list[bool] = []
        optimizers = [model.optimizer for model in (self.policy, self.critic) if model is not None]
        hooks = [optimizer.register_step_post_hook(lambda *_: stepped.append(True)) for optimizer in optimizers]
        try:
            yield
        except Exception as error:
            if isinstance(error, DivergenceError) or is_connection_error(error):
                raise
            try:
                add_note(error, self._save_if_unchanged(bool(stepped)))
            except DivergenceError as reason:  # the engine's own error would be less clear
                raise reason from error
            raise
        finally:
            for hook in hooks:
                hook.remove()

    def _sync_weights(self) -> None:
        """Hand the weights to the rollout engine; if it fails, the run ends when this step is saved."""
        try:
            self.rollouts.sync_weights()
        except (RolloutError, StopRequested) as error:  # on every process
            self.failure = error

    def _try_validation(self) -> Metrics:
        """Return the metrics of a validation; if it fails, none, and the run ends when the step before it is saved."""
        before = random_state()
        try:
            metrics = self.validate()
            self.callbacks("on_evaluate", metrics=metrics)
            return metrics
        except Exception as error:
            if is_connection_error(error) or not self.ranks.all_arrive(f"failed validation {self.steps_done}"):
                raise
            self.failure = error
            set_random_state(before)
            return {}

    def _save_if_unchanged(self, stepped: bool) -> str:
        """Save the state from before a step that failed, if no process has changed a weight; says what it did."""
        if not self.ranks.all_arrive(f"failure in step {self.steps_done + 1}"):
            return "The state was not saved: the error is one process's own, and the others cannot help to save it."
        if self.ranks.any(stepped):
            return "The state was not saved: part of this step's update had been made."
        try:
            self.save()
        except CheckpointError as failure:
            return f"The state from before this step was not saved: {failure}"
        return f"The state from before this step is saved: {self.checkpoints.directory}"

    def _remember_state(self) -> None:
        """Keep what a run needs, besides the weights, to do the next step exactly as this one will."""
        self._remembered = {
            "steps": self.steps_done,
            "random": random_state(),
            "data": copy.deepcopy(self.train_loader.state_dict()),
            "kl_coef": self.kl_ctrl.value,
            "ids": self.ids.getstate(),
            "score": self.score,
        }

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self.ids.getrandbits(128), version=4))

    def _collect(
        self, prompts: dict[str, Any], timing: dict[str, float], metrics: Metrics
    ) -> tuple[DataProto, "Future[Reward] | None"]:
        """Return the batch that a step learns from: prompts with responses, and the reward, which may be under way."""
        batch = self._answer(prompts, timing, metrics)
        self._arrange(batch, metrics)
        with timed("reward", timing):
            return batch, self._start_reward(batch)

    def _collect_filtered(
        self, prompts: dict[str, Any], timing: dict[str, float], metrics: Metrics
    ) -> tuple[DataProto, "Future[Reward] | None"]:
        """Do what `_collect` does, with others drawn in place of prompts whose responses do not differ in reward."""
        waiting = [prompts]

        def draw() -> Scored:
            batch = self._answer(waiting.pop() if waiting else next(self._prompts), timing, metrics)
            with timed("reward", timing):
                return batch, *self.ranks.on_driver(partial(call_reward, self.reward_fn, batch, self.tokenizer))

        count = self.config.data.train_batch_size
        batch, scores, extra = sample_until_full(draw, self.config, count, metrics)
        batch.batch["token_level_scores"] = scores
        add_columns(batch, extra)
        self._arrange(batch, metrics)
        done: Future[Reward] = Future()
        columns = batch.non_tensor_batch  # in the current order of the rows
        extra = {name: list(columns[name]) for name in extra if name in columns}
        done.set_result((batch.batch["token_level_scores"], extra))
        return batch, done

    def _answer(self, prompts: dict[str, Any], timing: dict[str, float], metrics: Metrics) -> DataProto:
        """Return a batch of prompts with `rollout.n` responses to each; those to the same prompt have the same uid."""
        batch = DataProto.from_single_dict(prompts)
        batch.non_tensor_batch["uid"] = np.array([self._new_id() for _ in range(len(batch))], dtype=object)
        prompt_batch = generation_batch(batch)
        prompt_batch.meta_info["global_steps"] = self.steps_done + 1
        with timed("gen", timing):
            responses = self.rollouts.generate(prompt_batch.repeat(self.rollout_n, interleave=True))
        if self.config.algorithm.adv_estimator == AdvantageEstimator.REMAX:
            with timed("gen_max", timing):
                self._add_reward_baselines(batch, prompt_batch)
        batch = batch.repeat(self.rollout_n, interleave=True).union(responses)
        metrics.update(episode_metrics(batch))
        batch.meta_info["global_steps"] = self.steps_done + 1
        if "response_mask" not in batch.batch.keys():
            batch.batch["response_mask"] = compute_response_mask(batch)
        return batch

    def _arrange(self, batch: DataProto, metrics: Metrics) -> None:
        """Order the rows for the processes, if so configured, and note how long they are."""
        if self.config.trainer.balance_batch:
            metrics.update(balance_batch(batch, self.ranks.world_size))
        batch.meta_info["global_token_num"] = batch.batch["attention_mask"].sum(dim=-1).tolist()

    def _add_reward_baselines(self, batch: DataProto, prompts: DataProto) -> None:
        """Add the baselines of ReMax, (prompts,): the reward of the likeliest response to each prompt."""
        greedy = DataProto(
            prompts.batch.copy(), dict(prompts.non_tensor_batch), {**prompts.meta_info, "do_sample": False}
        )
        responses = self.rollouts.generate(greedy)
        answered = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), dict(batch.meta_info)).union(responses)
        reward, _ = self.ranks.on_driver(lambda: call_reward(self.reward_fn, answered, self.tokenizer))
        batch.batch["reward_baselines"] = reward.sum(dim=-1)

    def _start_reward(self, batch: DataProto) -> "Future[Reward] | None":
        """Have rank 0 compute the reward of the global batch: at once, or in the background if so configured."""
        if self.ranks.rank != 0:
            return None
        # What is added to the batch meanwhile must not be seen by the reward.
        batch = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), dict(batch.meta_info))
        if OmegaConf.select(self.config, reward_keys.IN_BACKGROUND):
            return self.background.submit(call_reward, self.reward_fn, batch, self.tokenizer)
        done: Future[Reward] = Future()
        try:
            done.set_result(call_reward(self.reward_fn, batch, self.tokenizer))
        except Exception as error:
            done.set_exception(error)
        return done

    def _needs_old_log_probs(self, batch: DataProto) -> bool:
        """Tell whether anything uses, or the config asks for, the policy's log-probabilities before the update."""
        return bool(
            self.config.local.recompute_old_log_probs
            or self.config.algorithm.use_kl_in_reward
            or "rollout_log_probs" in batch.batch.keys()
            or not self.policy.takes_own_log_probs(len(batch))
        )

    def _old_log_probs(self, batch: DataProto) -> tuple[DataProto, float]:
        """Return the policy's log-probabilities before the update, and its mean entropy."""
        output = self.ranks.spread(self.policy.compute_log_prob, batch)
        entropys = output.batch.pop("entropys")  # (bs, response_length)
        entropy = agg_loss(entropys, batch.batch["response_mask"], self.config.actor_rollout_ref.actor.loss_agg_mode)
        return batch.union(output), entropy.item()

    def _advantages(self, batch: DataProto, reward: "Future[Reward] | None") -> tuple[DataProto, Metrics]:
        """Add the reward, and from it `advantages` and `returns`, (bs, response_length), over the global batch."""
        algorithm = self.config.algorithm
        with under_way("reward"):  # the part that is not done yet
            scores, extra = self.ranks.on_driver(lambda: reward.result())  # type: ignore[union-attr]
        metrics: Metrics = {**reward_metrics(extra), **group_metrics(batch.non_tensor_batch["uid"], scores)}
        batch.batch["token_level_scores"] = scores
        add_columns(batch, extra)
        if algorithm.use_kl_in_reward:
            batch, kl_metrics = apply_kl_penalty(batch, kl_ctrl=self.kl_ctrl, kl_penalty=algorithm.kl_penalty)
            metrics.update(kl_metrics)
        else:
            batch.batch["token_level_rewards"] = scores
        batch, correction_metrics = correct(batch, self.config)
        metrics.update(correction_metrics)
        with calling_estimator(algorithm.adv_estimator), self._same_random_numbers("advantages"):
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
        if self.ranks.rank == 0:
            self._record_samples(batch, scores.sum(dim=-1).tolist(), extra)
        return batch, metrics

    def _record_samples(self, batch: DataProto, scores: list[float], extra: dict[str, list[Any]]) -> None:
        """Record some samples of this step, if it is one of about a hundred through the run; all, if so configured."""
        step = self.steps_done + 1
        if step in (1, self.total_steps) or step % max(1, self.total_steps // TRAINING_SAMPLES_AT) == 0:
            count = self.config.local.log_train_generations
            self.tracker.log_generations(shown_training_rows(batch, scores, extra, count, self.tokenizer), step)
        if self.config.trainer.rollout_data_dir:
            rows = sample_rows(batch, scores, self.tokenizer)
            write_rows(self.config.trainer.rollout_data_dir, step, rows, extra)

    def _same_random_numbers(self, purpose: str) -> contextlib.AbstractContextManager[None]:
        """Have all processes draw the same random numbers within it, whatever their number."""
        return same_random_numbers(f"{self.config.local.seed} {self.steps_done} {purpose}")
