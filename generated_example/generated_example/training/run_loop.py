# vextract:template base/__package__/training/run_loop.py - edit freely
"""A run: the loop over a trainer's steps, and what surrounds it. The step itself is in `trainer.py`."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..api.assembly import load_parts
from ..errors import ConfigError, add_note, notes_on
from ..run.checkpoint import Checkpoints, restoring
from ..run.checkpoint_files import CheckpointError
from ..run.distributed import is_connection_error, random_state, set_random_state
from ..run.failures import noting_checkpoint
from ..run.process import Closing, StopRequested, StopSignal, lock_run_directory, without_running_loop
from ..tracking.run_tracker import GENERATIONS, METRICS, RunTracker, as_numbers, read_rows
from ..tracking.timing import timed
from ..vendored.algorithms.metric_utils import compute_timing_metrics
from ..vendored.protocol import DataProto
from .callbacks import Callbacks
from .divergence import DivergenceError
from .run_state import Prompts, RunState

Metrics = dict[str, Any]


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

    def begin(self, parts: Any, callbacks: list[Any]) -> None:
        """Begin a run of these parts, or go on with one."""
        self.checkpoints: Checkpoints = parts.checkpoints
        self.total_steps: int = parts.total_steps
        self.tracker = RunTracker(self.config, self.checkpoints.directory, self.total_steps, active=False)
        self.resumed_from: Path | None = parts.resumed_from
        self.finished, self.steps_done = False, 0
        self.failure: Exception | None = None
        self.score: float | None = None
        self._lock = parts.lock
        self._has_begun = self._is_going_on = False
        self._thread = 0  # in which it is going on
        self.callbacks = Callbacks(callbacks, self)
        self.begin_prompts()
        self._state = RunState(self)
        if self.resumed_from is not None:
            with restoring(self.resumed_from):
                self.restore(*parts.state)

    def train_step(self, prompts: Any, timing: dict[str, float] | None = None) -> tuple[DataProto, Metrics]:
        """Do one step."""
        raise NotImplementedError

    def validate(self, loader: Any = None) -> Metrics:
        """Answer the validation prompts, and score the answers."""
        raise NotImplementedError

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
        if is_over and not settings.val_only:
            self._say_nothing_to_do()
            self.finished = True
            return
        stop = StopSignal()
        with self._surrounded(), stop:
            self._state.set_random_numbers()
            self.callbacks("on_train_begin")
            if settings.val_only or (settings.val_before_train and self.steps_done == 0):
                metrics = self.validate()
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
        self.require_open()
        if self._is_going_on:
            raise ConfigError("a run is going on", "load between runs: after fit(), or outside the loop over steps()")
        with without_running_loop():
            start = self.checkpoints.chosen(path)
            with restoring(start):
                self.restore(*load_parts(self.checkpoints, start, self.models, self.ranks))
            self.rollouts.sync_weights()
        self.resumed_from, self.finished, self.failure = start, False, None
        self._has_begun = False
        self.begin_prompts()
        self._state.forget()
        return start

    def restore(self, step: int, trainer: dict[str, Any], data: Any, random_numbers: dict[str, Any] | None) -> None:
        """Go on after `step` steps, from the state in a checkpoint; the models' weights are loaded already."""
        self._state.restore(step, trainer, data, random_numbers)

    def begin_prompts(self) -> None:
        """Draw the next batch from where the data loader is now."""
        self.prompts = Prompts(self)

    def require_open(self) -> None:
        """Raise a ConfigError if it has been closed, or if a run is going on in another thread."""
        super().require_open()
        if self._is_going_on and threading.get_ident() != self._thread:  # both would use the same model and numbers
            raise ConfigError(
                "a run is going on in another thread", "call it there, in the loop over steps(), or in a callback"
            )

    def _say_nothing_to_do(self) -> None:
        if self.ranks.rank == 0:
            place = self.resumed_from or "the model"
            print(f"nothing to do: {place} is at step {self.steps_done} of {self.total_steps}")
            print("hint: set trainer.total_training_steps higher, or trainer.resume_mode=disable to start anew")

    @contextlib.contextmanager
    def _surrounded(self) -> Iterator[None]:
        """Enter what a run has around it: its records, its lock, a note on its last checkpoint if it fails."""
        config, checkpoints, total, start = self.config, self.checkpoints, self.total_steps, self.steps_done
        directory, processes = checkpoints.directory, self.ranks.world_size
        lock, self._lock = self._lock or lock_run_directory(directory, self.ranks), None
        with lock:
            if not (config.trainer.val_only or self._has_begun):
                checkpoints.begin(self.resumed_from)
            self._has_begun = True
            self.tracker = RunTracker(config, directory, total, start_step=start, processes=processes)
            noting, going_on = noting_checkpoint(checkpoints, config, total), self._marked_going_on()
            with noting, self.tracker, going_on:
                if start and self.resumed_from is not None:
                    self.tracker.message(f"resuming from {self.resumed_from}")
                if self._state.missing_row:
                    self.tracker.log_missing(self._state.missing_row, start)
                yield

    @contextlib.contextmanager
    def _marked_going_on(self) -> Iterator[None]:
        self._is_going_on, self._thread = True, threading.get_ident()
        try:
            yield
        finally:
            self._is_going_on = False

    def _after_step(self, batch: DataProto, metrics: Metrics, timing: dict[str, float]) -> None:
        """Validate if it is time, and remember the state."""
        step = self.steps_done
        self.divergence.remember(batch)
        self.callbacks("on_step_end")
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
        ends = stopping or self._is_last
        if stopping or saves or self.callbacks.asked("save"):
            # A run that is killed before the step is logged logs it when it goes on.
            self._state.row = as_numbers({**metrics, **compute_timing_metrics(batch, timing)})
            with timed("save_checkpoint", timing):
                self._state.save()
        metrics.update(compute_timing_metrics(batch, timing))
        self.tracker.log(metrics, step)
        self.callbacks("on_log", logs=metrics)
        if self.failure is not None and not isinstance(self.failure, StopRequested):
            add_note(self.failure, f"The state after step {step} is saved: {self.checkpoints.directory}")
            raise self.failure
        self.finished = self._is_last
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

    @contextlib.contextmanager
    def _saving_if_unchanged(self) -> Iterator[None]:
        """If a step fails within it before any weight has changed, save the state from before the step."""
        stepped: list[bool] = []
        optimizers = [model.optimizer for model in self.models.values()]
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

    def _save_if_unchanged(self, stepped: bool) -> str:
        """Save the state from before a step that failed, if no process has changed a weight; says what it did."""
        if not self.ranks.all_arrive(f"failure in step {self.steps_done + 1}"):
            return "The state was not saved: the error is one process's own, and the others cannot help to save it."
        if self.ranks.any(stepped):
            return "The state was not saved: part of this step's update had been made."
        try:
            self._state.save()
        except CheckpointError as failure:
            return f"The state from before this step was not saved: {failure}"
        return f"The state from before this step is saved: {self.checkpoints.directory}"


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
