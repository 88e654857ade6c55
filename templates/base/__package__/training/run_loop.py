# vextract:template - edit freely
"""A run: the loop over a trainer's steps, and what a checkpoint keeps of it. The step itself is in `trainer.py`."""

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError, attached_notes
from ..run.distributed import random_state, set_random_state
from ..run.heap import freed_memory
from ..run.process import Closing, StopRequested, StopSignal, lock_run_directory, without_running_loop
from ..run.shared_checkpoints import beside_training, raise_failure, waiting_for_last
from ..switches import (
    EARLY_STOPPING,
    FREED_MEMORY,
    GIVEN_OBJECTS,
    HF,
    LORA,
    OVERLAP,
    PARTS,
    PROVENANCE,
    RESCUE,
    SHARDED_CHECKPOINTS,
    WATCH,
)
from ..tracking import timed
from ..tracking.run_tracker import GENERATIONS, METRICS, RunTracker, as_numbers, read_rows
from ..vendored.algorithms.metric_utils import compute_timing_metrics
from ..vendored.protocol import DataProto
from .assembly import load_parts
from .callbacks import Callbacks
from .changed_settings import identity_of, note_changes
from .checkpoint import Checkpoints, restoring
from .early_stopping import EarlyStopping
from .failures import noting_checkpoint
from .overlap import PromptsAhead
from .rescue import evaluated_or_failed, raise_kept, saving_if_unchanged

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
    """Goes through a trainer's steps: validates, saves and records when it is time.

    A trainer derives from it; it has the run's parts, and `train_step` and `validate`.

    Attributes:
        steps_done: how many steps the weights have been trained for.
        finished: whether the last step has been reached.
        resumed_from: the checkpoint that the run goes on from; None: it starts anew.
        prompts: batches of prompts, one for each step.
        score: of validation after the last step; None: there was none.
    """

    config: Any
    ranks: Any
    models: dict[str, Any]
    rollouts: Any
    train_loader: Any
    kl_ctrl: Any
    ids: Any
    checkpoints: Checkpoints
    total_steps: int
    resumed_from: Path | None
    lock: Any
    assemble: Any
    train_step: Any
    validate: Any
    if LORA:
        base_models: Any
    if WATCH:
        divergence: Any
    if GIVEN_OBJECTS:
        callbacks: Callbacks

    def begin(self, state: tuple[Any, ...]) -> None:
        """Set up the state of a run, and restore it from `state`, the arguments of `restore`, if it resumes."""
        self.tracker = RunTracker(self.config, self.checkpoints.directory, self.total_steps, active=False)
        self.finished, self.steps_done = False, 0
        if RESCUE:
            self.failure: Exception | None = None
        self.score: float | None = None
        self._has_begun = False
        if PARTS:
            self._is_going_on = False
        if EARLY_STOPPING:
            self.stopping = EarlyStopping(self.config.local.early_stopping)
        if PROVENANCE:
            self._identity = identity_of(self)
        self._restart_prompts()
        if self.resumed_from is not None:
            with restoring(self.resumed_from):
                self.restore(*state)

    def fit(self, dataset: Any = None, val_dataset: Any = None) -> "TrainResult":
        """Train until the last step, or until asked to stop, in which case a checkpoint is saved.

        Args:
            dataset, val_dataset: prompts for training and validation, see `given.py`; None: what the config says.

        Raises:
            DataError: the data cannot be used; and see `assemble`.
            HookError: a hook raised, or returned what cannot be used.
            DivergenceError: the weights are no longer finite.
            CheckpointError: a checkpoint cannot be written.
        """
        for _ in self.steps(dataset, val_dataset):
            pass
        return TrainResult(self.checkpoints, finished=self.finished, steps=self.steps_done)

    def steps(self, dataset: Any = None, val_dataset: Any = None) -> Iterator[Step]:
        """Train step by step, as `fit` does: the run ends with the loop over this.

        Yields:
            Each step: its number, metrics and batch. Random numbers that the caller draws do not change the next step.
        """
        self.assemble(dataset, val_dataset)
        settings, is_over = self.config.trainer, self._is_last
        if EARLY_STOPPING:
            is_over = is_over or self.stopping.reason is not None
        if is_over and not settings.val_only:
            self.finished = True
            if self.ranks.rank != 0:
                return
            if EARLY_STOPPING and self.stopping.reason:
                print(f"{self.stopping.reason}\nhint: set local.early_stopping.patience higher, or null")
            else:
                place = self.resumed_from or "the model"
                print(f"nothing to do: {place} is at step {self.steps_done} of {self.total_steps}")
                print("hint: set trainer.total_training_steps higher, or trainer.resume_mode=disable to start anew")
            return
        stop = StopSignal()
        with self._run_context(), stop:
            self._restore_random_numbers()
            if GIVEN_OBJECTS:
                self.callbacks("on_train_begin")
            if settings.val_only or (settings.val_before_train and self.steps_done == 0):
                self.tracker.log(self._validation() if EARLY_STOPPING else self.validate(), step=self.steps_done)
            self._restart_prompts()
            self.finished = bool(settings.val_only)
            trains = not (settings.val_only or self.ranks.any(stop.requested))  # validating may have taken long
            for prompts in self.prompts if trains else ():
                if GIVEN_OBJECTS:
                    self.callbacks("on_step_begin")
                timing: dict[str, float] = {}
                if RESCUE or not HF:
                    try:
                        if RESCUE:
                            with saving_if_unchanged(self):
                                batch, metrics = self.train_step(prompts, timing)
                        else:
                            batch, metrics = self.train_step(prompts, timing)
                    except StopRequested as stopped:  # as it waited for others: the step is done when the run goes on
                        self.tracker.message("\n".join(attached_notes(stopped)))
                        break
                else:
                    batch, metrics = self.train_step(prompts, timing)
                ends = self._after_step(stop, batch, metrics, timing)
                if FREED_MEMORY:
                    freed_memory.after_step()
                yield Step(self.steps_done, as_numbers(metrics), batch)
                self._restore_random_numbers()
                if ends:
                    break
            if GIVEN_OBJECTS:
                self.callbacks("on_train_end")

    def save(self, path: str | Path | None = None) -> Path:
        """Save a checkpoint of the state after the last step.

        Args:
            path: a directory of its own for it; None: the run's.

        Returns:
            The checkpoint: `path`/global_step_N.

        Raises:
            CheckpointError: it cannot be written.
        """
        self.require_open()
        if self._steps != self.steps_done:
            self._remember()
        if WATCH:
            self.divergence.before_saving()
        state = dict(self._state)
        data = state.pop("data")
        if PROVENANCE:
            state["identity"] = self._identity
        if LORA:
            state["base_models"] = self.base_models
        checkpoints = self.checkpoints if path is None else self.checkpoints.elsewhere(Path(path))
        ends = self.config.trainer.save_freq <= 0  # nothing was to be saved on the way
        finished = ends and (self._is_last or (EARLY_STOPPING and self.stopping.reason is not None))
        if GIVEN_OBJECTS:
            saved = checkpoints.save(self.steps_done, self.models, data, state, self.score, finished=finished)
            self.callbacks("on_save")
            return saved
        else:
            return checkpoints.save(self.steps_done, self.models, data, state, self.score, finished=finished)

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
                    self.restore(*load_parts(self.checkpoints, start, self.models, self.ranks))
                self.rollouts.sync_weights()
            self.resumed_from, self.finished, self._has_begun = start, False, False
            if RESCUE:
                self.failure = None
            self._restart_prompts()
            return start

    def restore(self, step: int, trainer: dict[str, Any], data: Any, random_numbers: dict[str, Any] | None) -> None:
        """Go on after `step` steps, from the state in a checkpoint; the models' weights are loaded already."""
        self.steps_done = step
        self.train_loader.load_state_dict(data)
        if self.config.algorithm.kl_ctrl.type == "adaptive":  # the other one's coefficient is that of the config
            self.kl_ctrl.value = trainer["kl_coef"]
        self.ids.setstate(trainer["ids"])
        self.score, self._saved_metrics = trainer["score"], trainer.get("metrics", {})
        if EARLY_STOPPING:
            self.stopping.restore(trainer.get("early_stopping") or EarlyStopping(self.stopping.settings).state())
        if random_numbers is not None:
            set_random_state(random_numbers)
        if PROVENANCE and self.ranks.rank == 0:
            note_changes(trainer.get("identity", {}), self._identity)
        self._remember()

    def draw(self) -> Iterator[dict[str, Any]]:
        """Draw batches of prompts, epoch after epoch, until the last step."""
        while self.steps_done < self.total_steps:
            yield from self.train_loader

    def position(self) -> dict[str, Any]:
        """Return where the next batch is drawn: the states of data loader, sample ids and random generators."""
        data = copy.deepcopy(self.train_loader.state_dict())
        return {"random": random_state(), "data": data, "ids": self.ids.getstate()}

    def _restart_prompts(self) -> None:
        """Draw the next batch from where the data loader is now."""
        self.prompts = PromptsAhead(self) if OVERLAP else self.draw()
        self._remember()

    def _remember(self) -> None:
        """Keep the state for a checkpoint: random numbers drawn between steps do not change it."""
        self._steps, self._random = self.steps_done, random_state()
        position = self.prompts.position() if OVERLAP else self.position()
        self._state = {**position, "kl_coef": self.kl_ctrl.value, "score": self.score}
        if EARLY_STOPPING:
            self._state["early_stopping"] = self.stopping.state()

    def _restore_random_numbers(self) -> None:
        """Put the global random generators back to where they were after the last step, if that is remembered.

        What a caller has drawn since then changes nothing.
        """
        if self._steps == self.steps_done:
            set_random_state(self._random)

    @contextlib.contextmanager
    def _run_context(self) -> Iterator[None]:
        """Lock the run's directory, open its records, and name the last checkpoint if the run fails."""
        config, checkpoints, total, start = self.config, self.checkpoints, self.total_steps, self.steps_done
        directory = checkpoints.directory
        lock, self.lock = self.lock or lock_run_directory(directory, self.ranks), None
        with contextlib.ExitStack() as around:
            if PARTS:
                self._is_going_on = True
                around.callback(setattr, self, "_is_going_on", False)
            around.enter_context(lock)
            if not (config.trainer.val_only or self._has_begun):
                checkpoints.begin(self.resumed_from)
            self._has_begun = True
            if OVERLAP:
                around.enter_context(self._putting_back())
            self.tracker = RunTracker(config, directory, total, start_step=start)
            around.enter_context(noting_checkpoint(checkpoints, config, total))
            if SHARDED_CHECKPOINTS:
                around.enter_context(waiting_for_last(checkpoints))
            around.enter_context(self.tracker)
            if start and self.resumed_from is not None:
                self.tracker.message(f"resuming from {self.resumed_from}")
                if self.resumed_from.parent == directory:
                    self.tracker.fill_in(self._saved_metrics, start)
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
                self._remember()

    def _after_step(self, stop: StopSignal, batch: DataProto, metrics: Metrics, timing: dict[str, float]) -> bool:
        """Validate and save if it is time, and log the step; tell whether the run ends with it."""
        step, is_last = self.steps_done, self._is_last
        if WATCH:
            self.divergence.remember(batch)
        if EARLY_STOPPING:
            self.stopping.improved = False
        if GIVEN_OBJECTS:
            self.callbacks("on_step_end")
        due = self.is_due(self.config.trainer.test_freq, step) or (GIVEN_OBJECTS and self.callbacks.asked("evaluate"))
        if due and (not RESCUE or self.failure is None):
            with timed("testing", timing):
                if RESCUE:
                    metrics.update(evaluated_or_failed(self))
                else:
                    metrics.update(self._evaluated() if GIVEN_OBJECTS or EARLY_STOPPING else self.validate())
        metrics.update({"training/global_step": step, "training/epoch": (step - 1) // len(self.train_loader)})
        dataset = self.train_loader.dataset
        if not is_last and hasattr(dataset, "on_batch_end"):  # rank 0 alone has a dataset
            dataset.on_batch_end(batch=batch)
        self._remember()

        asked = self.ranks.any(stop.requested) or (GIVEN_OBJECTS and self.callbacks.asked("training_stop"))
        stopping = (asked and not is_last) or (RESCUE and self.failure is not None)
        saves = self.is_due(self.config.trainer.save_freq, step) or (is_last and self.config.local.save_last)
        if EARLY_STOPPING:
            early = None if is_last else self.stopping.reason
            stopping = stopping or early is not None
            saves = saves or (self.stopping.improved and self.config.local.early_stopping.patience is not None)
        ends = stopping or is_last
        if SHARDED_CHECKPOINTS:
            raise_failure(self.checkpoints)
        if GIVEN_OBJECTS:
            saves = saves or self.callbacks.asked("save")
        if stopping or saves:
            self._state["metrics"] = as_numbers(metrics)
            with timed("save_checkpoint", timing):
                if SHARDED_CHECKPOINTS:
                    with beside_training(self.checkpoints, not ends):
                        self.save()
                else:
                    self.save()
        metrics.update(compute_timing_metrics(batch, timing))
        self.tracker.log(metrics, step)
        if GIVEN_OBJECTS:
            self.callbacks("on_log", logs=metrics)
        if RESCUE:
            raise_kept(self)
        self.finished = is_last
        if EARLY_STOPPING and early is not None:
            self.finished = True
            self.tracker.message(early)
        return ends

    if EARLY_STOPPING:

        def _validation(self) -> Metrics:
            """Return the metrics of a validation, and note how good it was."""
            metrics: Metrics = self.validate()
            self.score = self.stopping.score_of(metrics, self.score)
            self.stopping.note(self.score, self.steps_done)
            return metrics

    if GIVEN_OBJECTS or EARLY_STOPPING:

        def _evaluated(self) -> Metrics:
            """Return the metrics of a validation, of which callbacks and early stopping are told."""
            metrics: Metrics = self._validation() if EARLY_STOPPING else self.validate()
            if GIVEN_OBJECTS:
                self.callbacks("on_evaluate", metrics=metrics)
            return metrics

    @property
    def _is_last(self) -> bool:
        return self.steps_done >= self.total_steps

    def is_due(self, every: int, step: int) -> bool:
        """Tell whether something done every `every` steps, and after the last, is due after `step`."""
        return every > 0 and (step >= self.total_steps or step % every == 0)


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

    @property
    def metrics(self) -> dict[int, dict[str, Any]]:
        """Return the metrics of each step; 0 is the validation before the first."""
        return {row["step"]: row for row in read_rows(self.directory / METRICS)}

    @property
    def samples(self) -> list[dict[str, Any]]:
        """Return what the model wrote in some steps: step, prompt, response, ground_truth, score, components, split."""
        return read_rows(self.directory / GENERATIONS)

    @property
    def last_checkpoint(self) -> Path | None:
        """Return the last checkpoint; None: there is none."""
        return self.checkpoints.last_complete()

    if EARLY_STOPPING:

        @property
        def best_checkpoint(self) -> Path | None:
            """Return the one with the best validation score; None: none was saved after a validation."""
            return self.checkpoints.best()
