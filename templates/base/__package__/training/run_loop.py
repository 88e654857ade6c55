# vextract:template - edit freely
"""A run: the loop over a trainer's steps, and what surrounds it. The step itself is in `trainer.py`."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..api.assembly import load_parts
from ..errors import ConfigError
from ..run.checkpoint import restoring
from ..run.checkpoint_files import CheckpointError, check_storable
from ..run.distributed import random_state, set_random_state
from ..run.failures import add_note, notes_on, noting_checkpoint
from ..run.heap import freed_memory
from ..run.interrupts import StopRequested, StopSignal
from ..run.peers import is_connection_error
from ..run.process import without_running_loop
from ..run.run_lock import lock_run_directory
from ..run.shared_checkpoints import beside_training, raise_failure, waiting_for_last
from ..switches import EARLY_STOPPING, FREED_MEMORY, OVERLAP, SHARDED_CHECKPOINTS
from ..tracking.run_tracker import RunTracker, as_numbers
from ..tracking.timing import timed
from ..vendored.algorithms.metric_utils import compute_timing_metrics
from ..vendored.protocol import DataProto
from .divergence import DivergenceError
from .results import Step
from .run_state import RunState

if TYPE_CHECKING:
    from .trainer import LocalPPOTrainer

Metrics = dict[str, Any]


class RunLoop:
    """Takes a trainer through its steps: validates and saves when it is time, records, and saves what a failure leaves.

    Args:
        trainer: does the steps.
        state: what is remembered after each of them, saved and gone back to.
        lock: keeps other runs out of the run's directory; None: it is to be locked when the run begins.
        resumed_from: the checkpoint that it goes on from; None: it starts anew.

    Attributes:
        finished: whether the last step has been reached.
    """

    def __init__(self, trainer: "LocalPPOTrainer", state: RunState, lock: Any, resumed_from: Path | None) -> None:
        self.trainer = trainer
        self.state = state
        self.lock = lock
        self.resumed_from = resumed_from
        self.finished = False
        self._has_begun = self._is_going_on = False
        self._thread = 0  # in which it is going on
        if EARLY_STOPPING:
            self.stopping = state.stopping

    def steps(self) -> Iterator[Step]:
        """Train step by step; see `LocalPPOTrainer.steps`."""
        trainer, settings = self.trainer, self.trainer.config.trainer
        is_over = self._is_last
        if EARLY_STOPPING:
            is_over = is_over or self.stopping.reason is not None
        if is_over and not settings.val_only:
            self._say_nothing_to_do()
            self.finished = True
            return
        stop = StopSignal()
        with self._surrounded(), stop:
            self.state.set_random_numbers()
            trainer.callbacks("on_train_begin")
            if settings.val_only or (settings.val_before_train and trainer.steps_done == 0):
                metrics = self._validate() if EARLY_STOPPING else trainer.validate()
                trainer.tracker.log(metrics, step=trainer.steps_done)
            self.state.remember()
            self.finished = bool(settings.val_only)
            trains = not (settings.val_only or trainer.ranks.any(stop.requested))  # validating may have taken long
            first = trainer.steps_done + 1
            trainer.begin_prompts()
            for prompts in trainer.prompts if trains else ():
                trainer.callbacks("on_step_begin")
                timing: dict[str, float] = {}
                try:
                    with self._saving_if_unchanged():
                        batch, metrics = trainer.train_step(prompts, timing)
                except StopRequested as stopped:  # while it waited for others: the step is done when the run goes on
                    trainer.tracker.message("\n".join(notes_on(stopped)))
                    break
                if FREED_MEMORY:
                    freed_memory.after_step()
                self._after_step(batch, metrics, timing)
                if trainer.steps_done == first:
                    trainer.ranks.on_driver(lambda: check_storable(self.state.data))
                ends = self._save_and_log(stop, batch, metrics, timing)
                yield Step(trainer.steps_done, as_numbers(metrics), batch)
                self.state.set_random_numbers()
                if ends:
                    break
            trainer.callbacks("on_train_end")

    def load(self, path: str | Path) -> Path:
        """Go back to a checkpoint, in place; see `LocalPPOTrainer.load`."""
        trainer = self.trainer
        if self._is_going_on:
            raise ConfigError("a run is going on", "load between runs: after fit(), or outside the loop over steps()")
        with without_running_loop():
            start = trainer.checkpoints.chosen(path)
            with restoring(start):
                parts = load_parts(trainer.checkpoints, start, trainer.models, trainer.ranks)
                self.state.restore(*parts)
            trainer.rollouts.sync_weights()
        self.resumed_from, self.finished, trainer.failure = start, False, None
        self._has_begun = False
        trainer.begin_prompts()
        self.state.forget()
        return start

    def _say_nothing_to_do(self) -> None:
        trainer = self.trainer
        if trainer.ranks.rank == 0:
            place = self.resumed_from or "the model"
            print(f"nothing to do: {place} is at step {trainer.steps_done} of {trainer.total_steps}")
            if EARLY_STOPPING and self.stopping.reason:
                print(f"{self.stopping.reason}\nhint: set local.early_stopping.patience higher, or null")
                return
            print("hint: set trainer.total_training_steps higher, or trainer.resume_mode=disable to start anew")

    @contextlib.contextmanager
    def _surrounded(self) -> Iterator[None]:
        """Enter what a run has around it: its records, its lock, a note on its last checkpoint if it fails."""
        trainer, config = self.trainer, self.trainer.config
        checkpoints, total, start = trainer.checkpoints, trainer.total_steps, trainer.steps_done
        directory, processes = checkpoints.directory, trainer.ranks.world_size
        lock, self.lock = self.lock or lock_run_directory(directory, trainer.ranks), None
        with lock:
            if not (config.trainer.val_only or self._has_begun):
                checkpoints.begin(self.resumed_from)
            self._has_begun = True
            trainer.tracker = RunTracker(config, directory, total, start_step=start, processes=processes)
            noting, going_on = noting_checkpoint(checkpoints, config, total), self._marked_going_on()
            with noting, trainer.tracker, going_on:
                if start and self.resumed_from is not None:
                    trainer.tracker.message(f"resuming from {self.resumed_from}")
                if self.state.missing_row:
                    trainer.tracker.log_missing(self.state.missing_row, start)
                if SHARDED_CHECKPOINTS and OVERLAP:
                    with waiting_for_last(checkpoints), self._putting_back():
                        yield
                elif SHARDED_CHECKPOINTS:
                    with waiting_for_last(checkpoints):
                        yield
                elif OVERLAP:
                    with self._putting_back():
                        yield
                else:
                    yield

    @contextlib.contextmanager
    def _marked_going_on(self) -> Iterator[None]:
        self._is_going_on, self._thread = True, threading.get_ident()
        try:
            yield
        finally:
            self._is_going_on = False

    def require_own_thread(self) -> None:
        """Raise a ConfigError if a run is going on in another thread: both would use the same model and numbers."""
        if self._is_going_on and threading.get_ident() != self._thread:
            raise ConfigError(
                "a run is going on in another thread", "call it there, in the loop over steps(), or in a callback"
            )

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
            if self.trainer.prompts.put_back():
                self.state.remember()

    def _after_step(self, batch: DataProto, metrics: Metrics, timing: dict[str, float]) -> None:
        """Validate if it is time, and remember the state."""
        trainer, step = self.trainer, self.trainer.steps_done
        trainer.divergence.remember(batch)
        trainer.callbacks("on_step_end")
        if EARLY_STOPPING:
            self.stopping.improved = False
        due = self._is_due(trainer.config.trainer.test_freq, step)
        if trainer.failure is None and (due or trainer.callbacks.asked("evaluate")):
            with timed("testing", timing):
                metrics.update(self._try_validation())
        metrics.update({"training/global_step": step, "training/epoch": (step - 1) // len(trainer.train_loader)})
        dataset = trainer.train_loader.dataset
        if not self._is_last and hasattr(dataset, "on_batch_end"):  # rank 0 alone has a dataset
            dataset.on_batch_end(batch=batch)
        self.state.remember()

    def _save_and_log(self, stop: StopSignal, batch: DataProto, metrics: Metrics, timing: dict[str, float]) -> bool:
        """Save if it is time, and log the step; tell whether the run ends with it."""
        trainer, step = self.trainer, self.trainer.steps_done
        stopping = trainer.ranks.any(stop.requested) or trainer.callbacks.asked("training_stop")
        stopping = (stopping and not self._is_last) or trainer.failure is not None
        saves = self.saves_after(step)
        if EARLY_STOPPING:
            early = None if self._is_last else self.stopping.reason
            stopping = stopping or early is not None
            saves = saves or (self.stopping.improved and trainer.config.local.early_stopping.patience is not None)
        ends = stopping or self._is_last
        if SHARDED_CHECKPOINTS:
            raise_failure(trainer.checkpoints)
        if stopping or saves or trainer.callbacks.asked("save"):
            # A run that is killed before the step is logged logs it when it goes on.
            self.state.row = as_numbers({**metrics, **compute_timing_metrics(batch, timing)})
            with timed("save_checkpoint", timing):
                if SHARDED_CHECKPOINTS:
                    with beside_training(trainer.checkpoints, not ends):
                        self.state.save()
                else:
                    self.state.save()
        metrics.update(compute_timing_metrics(batch, timing))
        trainer.tracker.log(metrics, step)
        trainer.callbacks("on_log", logs=metrics)
        if trainer.failure is not None and not isinstance(trainer.failure, StopRequested):
            add_note(trainer.failure, f"The state after step {step} is saved: {trainer.checkpoints.directory}")
            raise trainer.failure
        self.finished = self._is_last
        if EARLY_STOPPING and early is not None:
            self.finished = True
            trainer.tracker.message(early)
        return ends

    @property
    def _is_last(self) -> bool:
        return self.trainer.steps_done >= self.trainer.total_steps

    def _is_due(self, every: int, step: int) -> bool:
        """Tell whether what is done every so many steps, and after the last one, is due after this one."""
        return every > 0 and (step >= self.trainer.total_steps or step % every == 0)

    def saves_after(self, step: int) -> bool:
        """Tell whether the config asks for a checkpoint after this step."""
        config = self.trainer.config
        is_last = step >= self.trainer.total_steps
        return self._is_due(config.trainer.save_freq, step) or bool(is_last and config.local.save_last)

    if EARLY_STOPPING:

        def _validate(self) -> Metrics:
            """Validate, and note how good it was."""
            trainer = self.trainer
            metrics = trainer.validate()
            trainer.score = self.stopping.score_of(metrics, trainer.score)
            self.stopping.note(trainer.score, trainer.steps_done)
            return metrics

    def _try_validation(self) -> Metrics:
        """Return the metrics of a validation; if it fails, none, and the run ends when the step before it is saved."""
        trainer, before = self.trainer, random_state()
        try:
            metrics = self._validate() if EARLY_STOPPING else trainer.validate()
            trainer.callbacks("on_evaluate", metrics=metrics)
            return metrics
        except Exception as error:
            place = f"failed validation {trainer.steps_done}"
            if is_connection_error(error) or not trainer.ranks.all_arrive(place):
                raise
            trainer.failure = error
            set_random_state(before)
            return {}

    @contextlib.contextmanager
    def _saving_if_unchanged(self) -> Iterator[None]:
        """If a step fails within it before any weight has changed, save the state from before the step."""
        stepped: list[bool] = []
        optimizers = [model.optimizer for model in self.trainer.models.values()]
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
        ranks, directory = self.trainer.ranks, self.trainer.checkpoints.directory
        if not ranks.all_arrive(f"failure in step {self.trainer.steps_done + 1}"):
            return "The state was not saved: the error is one process's own, and the others cannot help to save it."
        if ranks.any(stepped):
            return "The state was not saved: part of this step's update had been made."
        try:
            self.state.save()
        except CheckpointError as failure:
            return f"The state from before this step was not saved: {failure}"
        return f"The state from before this step is saved: {directory}"
