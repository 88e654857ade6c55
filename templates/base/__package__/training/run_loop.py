# vextract:template - edit freely
"""A run: the loop over a trainer's steps, and what surrounds it. The step itself is in `trainer.py`."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError, add_note, notes_on
from ..run.checkpoint_files import CheckpointError
from ..run.distributed import is_connection_error, random_state, set_random_state
from ..run.heap import freed_memory
from ..run.process import Closing, StopRequested, StopSignal, lock_run_directory, without_running_loop
from ..run.shared_checkpoints import beside_training, raise_failure, waiting_for_last
from ..switches import EARLY_STOPPING, FREED_MEMORY, LORA, OVERLAP, PARTS, SHARDED_CHECKPOINTS
from ..tracking import timed
from ..tracking.run_tracker import GENERATIONS, METRICS, RunTracker, as_numbers, read_rows
from ..vendored.algorithms.metric_utils import compute_timing_metrics
from ..vendored.protocol import DataProto
from .assembly import load_parts
from .checkpoint import Checkpoints, restoring
from .divergence import DivergenceError
from .early_stopping import EarlyStopping
from .failures import noting_checkpoint
from .overlap import PromptsAhead
from .run_state import Prompts, RunState

Metrics = dict[str, Any]
# What callbacks are told of.
EVENTS = ("on_train_begin", "on_step_begin", "on_step_end", "on_evaluate", "on_save", "on_log", "on_train_end")


class Step(NamedTuple):
    """A step that has been done.

    Attributes:
        number: counted from 1.
        metrics: by upstream's names.
        batch: the global batch, with everything that was computed for it: see `LocalPPOTrainer.train_step`.
    """

    number: int
    metrics: dict[str, float]
    batch: DataProto


class RunLoop(Closing):
    """Goes through a trainer's steps: validates and saves when it is time, records, and saves what a failure leaves.

    A trainer derives from it; it has the run's parts, and `train_step` and `validate`.

    Attributes:
        steps_done: how many steps the weights have behind them.
        finished: whether the last step has been reached.
        resumed_from: the checkpoint that the run goes on from; None: it starts anew.
        prompts: batches of prompts, one for each step.
        failure: of something after a step's last update, so that the step counts.
        score: of validation after the last step; None: there was none.
    """

    config: Any
    ranks: Any
    models: dict[str, Any]
    rollouts: Any
    train_loader: Any
    kl_ctrl: Any
    ids: Any
    divergence: Any
    checkpoints: Checkpoints
    total_steps: int
    resumed_from: Path | None
    lock: Any
    if LORA:
        base_models: Any
    train_step: Any
    validate: Any

    def begin(self, state: tuple[Any, ...], callbacks: list[Any]) -> None:
        """Begin a run, or go on with one, of which a checkpoint has `state`: the arguments of `restore`."""
        self.tracker = RunTracker(self.config, self.checkpoints.directory, self.total_steps, active=False)
        self.finished, self.steps_done = False, 0
        self.failure: Exception | None = None
        self.score: float | None = None
        self._has_begun = False
        if PARTS:
            self._is_going_on = False
        self.callbacks = Callbacks(callbacks, self)
        self.begin_prompts()
        self._state = RunState(self)
        if LORA:
            self._state.base_models = self.base_models
        if EARLY_STOPPING:
            self.stopping: EarlyStopping = self._state.stopping
        if self.resumed_from is not None:
            with restoring(self.resumed_from):
                self._state.restore(*state)

    def fit(self) -> "TrainResult":
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
        self.require_open()
        settings, is_over = self.config.trainer, self._is_last
        if EARLY_STOPPING:
            is_over = is_over or self.stopping.reason is not None
        if is_over and not settings.val_only:
            self._say_nothing_to_do()
            self.finished = True
            return
        stop = StopSignal()
        with self._surrounded(), stop:
            self._state.set_random_numbers()
            self.callbacks("on_train_begin")
            if settings.val_only or (settings.val_before_train and self.steps_done == 0):
                metrics = self._validate() if EARLY_STOPPING else self.validate()
                self.tracker.log(metrics, step=self.steps_done)
            self._state.remember()
            self.finished = bool(settings.val_only)
            trains = not (settings.val_only or self.ranks.any(stop.requested))  # validating may have taken long
            self.begin_prompts()
            for prompts in self.prompts if trains else ():
                self.callbacks("on_step_begin")
                timing: dict[str, float] = {}
                try:
                    with self._saving_if_unchanged():
                        batch, metrics = self.train_step(prompts, timing)
                except StopRequested as stopped:  # while it waited for others: the step is done when the run goes on
                    self.tracker.message("\n".join(notes_on(stopped)))
                    break
                if FREED_MEMORY:
                    freed_memory.after_step()
                self._after_step(batch, metrics, timing)
                ends = self._save_and_log(stop, batch, metrics, timing)
                yield Step(self.steps_done, as_numbers(metrics), batch)
                self._state.set_random_numbers()
                if ends:
                    break
            self.callbacks("on_train_end")

    def save(self, path: str | Path | None = None) -> Path:
        """Save a checkpoint of the state after the last step.

        Args:
            path: a directory of its own for it; None: the run's.

        Returns:
            The checkpoint: `path`/global_step_N.

        Raises:
            DivergenceError: the policy is not worth saving.
            CheckpointError: it cannot be written.
        """
        self.require_open()
        return self._state.save(path)

    if PARTS:

        def load(self, path: str | Path) -> Path:
            """Go back to a checkpoint, in place, which the run then goes on from, as with `trainer.resume_mode`.

            Args:
                path: a global_step_N directory; or a run's, of which the last complete checkpoint is taken.

            Returns:
                The checkpoint.

            Raises:
                ConfigError: there is none, it is damaged, or it does not fit this run; or a run is going on.
            """
            self.require_open()
            if self._is_going_on:
                raise ConfigError("a run is going on", "load after fit(), or outside the loop over steps()")
            with without_running_loop():
                start = self.checkpoints.chosen(path)
                with restoring(start):
                    self._state.restore(*load_parts(self.checkpoints, start, self.models, self.ranks))
                self.rollouts.sync_weights()
            self.resumed_from, self.finished, self.failure = start, False, None
            self._has_begun = False
            self.begin_prompts()
            self._state.forget()
            return start

    def begin_prompts(self) -> None:
        """Draw the next batch from where the data loader is now."""
        self.prompts = PromptsAhead(self) if OVERLAP else Prompts(self)

    def _say_nothing_to_do(self) -> None:
        if self.ranks.rank == 0:
            place = self.resumed_from or "the model"
            print(f"nothing to do: {place} is at step {self.steps_done} of {self.total_steps}")
            if EARLY_STOPPING and self.stopping.reason:
                print(f"{self.stopping.reason}\nhint: set local.early_stopping.patience higher, or null")
                return
            print("hint: set trainer.total_training_steps higher, or trainer.resume_mode=disable to start anew")

    @contextlib.contextmanager
    def _surrounded(self) -> Iterator[None]:
        """Enter what a run has around it: its records, its lock, a note on its last checkpoint if it fails."""
        config, checkpoints, total, start = self.config, self.checkpoints, self.total_steps, self.steps_done
        directory, processes = checkpoints.directory, self.ranks.world_size
        lock, self.lock = self.lock or lock_run_directory(directory, self.ranks), None
        with contextlib.ExitStack() as around:
            around.enter_context(lock)
            if not (config.trainer.val_only or self._has_begun):
                checkpoints.begin(self.resumed_from)
            self._has_begun = True
            self.tracker = RunTracker(config, directory, total, start_step=start, processes=processes)
            around.enter_context(noting_checkpoint(checkpoints, config, total))
            around.enter_context(self.tracker)
            if PARTS:
                self._is_going_on = True
                around.callback(setattr, self, "_is_going_on", False)
            if start and self.resumed_from is not None:
                self.tracker.message(f"resuming from {self.resumed_from}")
            if self._state.missing_row:
                self.tracker.log_missing(self._state.missing_row, start)
            if SHARDED_CHECKPOINTS:
                around.enter_context(waiting_for_last(checkpoints))
            if OVERLAP:
                around.enter_context(self._putting_back())
            yield

    if OVERLAP:

        @contextlib.contextmanager
        def _putting_back(self) -> Iterator[None]:
            """When the run ends, have a batch that was drawn before its turn drawn again, should it go on."""
            try:
                yield
            except Exception:  # what is remembered is where the step began that failed
                raise
            except BaseException:  # the loop over the steps was left
                self._put_back()
                raise
            self._put_back()

        def _put_back(self) -> None:
            if self.prompts.put_back():
                self._state.remember()

    def _after_step(self, batch: DataProto, metrics: Metrics, timing: dict[str, float]) -> None:
        """Validate if it is time, and remember the state."""
        step = self.steps_done
        self.divergence.remember(batch)
        self.callbacks("on_step_end")
        if EARLY_STOPPING:
            self.stopping.improved = False
        due = self._is_due(self.config.trainer.test_freq, step)
        if self.failure is None and (due or self.callbacks.asked("evaluate")):
            with timed("testing", timing):
                metrics.update(self._try_validation())
        metrics.update({"training/global_step": step, "training/epoch": (step - 1) // len(self.train_loader)})
        dataset = self.train_loader.dataset
        if not self._is_last and hasattr(dataset, "on_batch_end"):  # rank 0 alone has a dataset
            dataset.on_batch_end(batch=batch)
        self._state.remember()

    def _save_and_log(self, stop: StopSignal, batch: DataProto, metrics: Metrics, timing: dict[str, float]) -> bool:
        """Save if it is time, and log the step; tell whether the run ends with it."""
        step = self.steps_done
        stopping = self.ranks.any(stop.requested) or self.callbacks.asked("training_stop")
        stopping = (stopping and not self._is_last) or self.failure is not None
        saves = self.saves_after(step)
        if EARLY_STOPPING:
            early = None if self._is_last else self.stopping.reason
            stopping = stopping or early is not None
            saves = saves or (self.stopping.improved and self.config.local.early_stopping.patience is not None)
        ends = stopping or self._is_last
        if SHARDED_CHECKPOINTS:
            raise_failure(self.checkpoints)
        if stopping or saves or self.callbacks.asked("save"):
            # A run that is killed before the step is logged logs it when it goes on.
            self._state.row = as_numbers({**metrics, **compute_timing_metrics(batch, timing)})
            with timed("save_checkpoint", timing):
                if SHARDED_CHECKPOINTS:
                    with beside_training(self.checkpoints, not ends):
                        self._state.save()
                else:
                    self._state.save()
        metrics.update(compute_timing_metrics(batch, timing))
        self.tracker.log(metrics, step)
        self.callbacks("on_log", logs=metrics)
        if self.failure is not None and not isinstance(self.failure, StopRequested):
            add_note(self.failure, f"The state after step {step} is saved: {self.checkpoints.directory}")
            raise self.failure
        self.finished = self._is_last
        if EARLY_STOPPING and early is not None:
            self.finished = True
            self.tracker.message(early)
        return ends

    @property
    def _is_last(self) -> bool:
        return self.steps_done >= self.total_steps

    def _is_due(self, every: int, step: int) -> bool:
        """Tell whether what is done every so many steps, and after the last one, is due after this one."""
        return every > 0 and (step >= self.total_steps or step % every == 0)

    def saves_after(self, step: int) -> bool:
        """Tell whether the config asks for a checkpoint after this step."""
        is_last = step >= self.total_steps
        return self._is_due(self.config.trainer.save_freq, step) or bool(is_last and self.config.local.save_last)

    if EARLY_STOPPING:

        def _validate(self) -> Metrics:
            """Validate, and note how good it was."""
            metrics = self.validate()
            self.score = self.stopping.score_of(metrics, self.score)
            self.stopping.note(self.score, self.steps_done)
            return metrics

    def _try_validation(self) -> Metrics:
        """Return the metrics of a validation; if it fails, none, and the run ends when the step before it is saved."""
        before = random_state()
        try:
            metrics = self._validate() if EARLY_STOPPING else self.validate()
            self.callbacks("on_evaluate", metrics=metrics)
            return metrics
        except Exception as error:
            if is_connection_error(error) or not self.ranks.all_arrive(f"failed validation {self.steps_done}"):
                raise
            self.failure = error
            set_random_state(before)
            return {}

    @contextlib.contextmanager
    def _saving_if_unchanged(self) -> Iterator[None]:
        """If a step fails within it before any process has changed a weight, save the state from before the step."""
        stepped: list[bool] = []
        optimizers = [model.optimizer for model in self.models.values()]
        hooks = [optimizer.register_step_post_hook(lambda *_: stepped.append(True)) for optimizer in optimizers]
        try:
            yield
        except Exception as error:
            if isinstance(error, DivergenceError) or is_connection_error(error):
                raise
            note = f"The state from before this step is saved: {self.checkpoints.directory}"
            if not self.ranks.all_arrive(f"failure in step {self.steps_done + 1}"):
                note = "The state was not saved: the error is one process's own, and the others cannot help to save it."
            elif self.ranks.any(bool(stepped)):
                note = "The state was not saved: part of this step's update had been made."
            else:
                try:
                    self._state.save()
                except DivergenceError as reason:  # the step's own error would be less clear
                    raise reason from error
                except CheckpointError as failure:
                    note = f"The state from before this step was not saved: {failure}"
            add_note(error, note)
            raise
        finally:
            for hook in hooks:
                hook.remove()


@dataclass(frozen=True)
class TrainResult:
    """A run that has ended.

    Attributes:
        checkpoints: those of the run.
        finished: whether it has reached its last step.
        steps: how many were done in all.
    """

    checkpoints: Checkpoints
    finished: bool
    steps: int

    @property
    def directory(self) -> Path:
        """Return the run's directory, with its checkpoints and its records."""
        return self.checkpoints.directory

    @cached_property
    def metrics(self) -> dict[int, dict[str, Any]]:
        """Return the metrics of each step; 0 is the validation before the first."""
        return {row["step"]: row for row in read_rows(self.directory / METRICS)}

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """Return what the model wrote in some steps: step, prompt, response, ground_truth, score, components, split."""
        return read_rows(self.directory / GENERATIONS)

    @property
    def last_checkpoint(self) -> Path | None:
        """Return the last checkpoint; None: there is none."""
        return self.checkpoints.last_complete()

    @property
    def best_checkpoint(self) -> Path | None:
        """Return the one with the best validation score; None: none was saved after a validation."""
        return self.checkpoints.best()

    def __repr__(self) -> str:
        state = "finished" if self.finished else "stopped"
        return f"TrainResult({state} after {self.steps} steps, last_checkpoint={self.last_checkpoint})"


class Callbacks:
    """Tells callbacks what happens in a run.

    Each is called as transformers calls it, `callback.on_step_end(args, state, control, ...)`, where args is the config
    and the further arguments are the model, the tokenizer (processing_class), the trainer, and `metrics` (on_evaluate)
    or `logs` (on_log). `control` is how it asks for something: should_training_stop, should_save, should_evaluate.

    Args:
        callbacks: objects with some of these methods.
        trainer: whose run it is.
    """

    def __init__(self, callbacks: Iterable[Any], trainer: Any) -> None:
        self.callbacks = list(callbacks)
        self.trainer = trainer
        if not self.callbacks:
            return
        from transformers import TrainerControl, TrainerState

        self.control: Any = TrainerControl()
        self.state: Any = TrainerState(max_steps=trainer.total_steps, is_world_process_zero=trainer.ranks.rank == 0)

    def __call__(self, event: str, **details: Any) -> None:
        """Tell all callbacks that have this method."""
        if not self.callbacks:
            return
        trainer = self.trainer
        self.state.global_step = trainer.steps_done
        self.state.epoch = trainer.steps_done / max(1, len(trainer.train_loader))
        if event == "on_train_begin":
            self.control._new_training()
        elif event == "on_step_begin":
            self.control._new_step()
        if event == "on_log":
            self.state.log_history.append({**details["logs"], "step": trainer.steps_done})
        given = {"model": trainer.policy.module, "processing_class": trainer.tokenizer, "trainer": trainer, **details}
        for callback in self.callbacks:
            function = getattr(callback, event, None)
            if function is not None:
                self.control = function(trainer.config, self.state, self.control, **given) or self.control

    def asked(self, what: str) -> bool:
        """Tell whether a callback, on any process, has asked for it: training_stop, save or evaluate."""
        return bool(self.callbacks) and self.trainer.ranks.any(bool(getattr(self.control, f"should_{what}")))


def listed(callbacks: Any) -> list[Any]:
    """Return callbacks as a list.

    Raises:
        ConfigError: they are no list of callbacks, or one of them has no method that is ever called.
    """
    if not isinstance(callbacks, Iterable):
        raise ConfigError(f"callbacks is of type {type(callbacks).__name__}", "give a list of callbacks")
    found = list(callbacks)
    for callback in found:
        if isinstance(callback, type) or not any(callable(getattr(callback, event, None)) for event in EVENTS):
            what = f"the class {callback.__name__}" if isinstance(callback, type) else f"{callback!r:.80}"
            raise ConfigError(
                f"a callback is {what}, which has no method that would be called",
                f"give objects with some of {', '.join(EVENTS)}",
            )
    return found
