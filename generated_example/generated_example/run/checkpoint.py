# vextract:template base/__package__/run/checkpoint.py - edit freely
"""Checkpoints that are there whole or not at all, and from which a run goes on bit for bit.

global_step_20/
    actor/          Hugging Face format: load it with transformers, serve it with vLLM; and optimizer.pt. Of a run that
                    trains an adapter: the adapter, in peft's format
    critic/         the same, if there is a critic
    data.pt         where the data loader was
    trainer.pt      random states of every process, KL controller, sample ids
    complete.json   every file's size and SHA-256; written last
latest_checkpointed_iteration.txt, best_checkpointed_iteration.txt
earlier_1/          checkpoints of a run that was started anew in this directory
damaged_1/          checkpoints that are not as they were written; the run went on from the one before
"""

import contextlib
import math
import os
import pickle
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..errors import ConfigError, ProjectError
from ..training.hook_errors import HookError
from ..workers.trained_model import TrainedModel
from .checkpoint_files import (
    WRITING,
    notes_of,
    read_state,
    recover,
    remove,
    replace_directory,
    set_aside,
    what_is_wrong,
    write_manifest,
    write_text,
)
from .distributed import Ranks
from .watch import is_connection_error

# How torch and safetensors report that a disk refuses what is written, in exceptions of their own.
DISK = re.compile(r"I/O error|iostream|inline_container")
NUMBER = re.compile(r"os error (\d+)")
LATEST = "latest_checkpointed_iteration.txt"
BEST = "best_checkpointed_iteration.txt"
NAME = re.compile(r"global_step_\d+")


class CheckpointError(ProjectError, RuntimeError):
    """A checkpoint could not be written. The text ends with a hint that says what to do."""


class Checkpoints:
    """The checkpoints in a run's directory.

    Args:
        directory: `trainer.default_local_dir`.
        ranks: rank 0 writes; every process must call `save`.
        keep: how many to keep, besides the best; None: all.
        digests: whether a checkpoint's contents are compared with their digests before a run goes on from it.
    """

    def __init__(self, directory: Path, ranks: Ranks, keep: int | None = None, digests: bool = True) -> None:
        self.directory = directory
        self.ranks = ranks
        self.keep = keep
        self.digests = digests

    def save(
        self,
        step: int,
        models: Mapping[str, TrainedModel],
        data: Any,
        trainer: Mapping[str, Any],
        score: float | None,
        *,
        finished: bool = False,
    ) -> Path:
        """Write a checkpoint, under its name only once it is complete and on disk.

        Args:
            step: the number of steps done.
            models: by the name of their directory: actor, critic.
            data: the data loader's state.
            trainer: whatever else the run needs to go on. `random` in it differs between processes.
            score: the higher, the better; decides which checkpoint is the best.
            finished: it holds the result of a run that has ended and was not asked to save on the way.
                `trainer.resume_mode=auto` does not go on from it: the next run in the directory starts anew.
        """
        path = self.directory / f"global_step_{step}"
        scratch = path.with_name(f"{WRITING}{path.name}")
        score = score if score is not None and math.isfinite(score) else None
        with self._writing(scratch):
            self._write(scratch, models, data, trainer, {"step": step, "score": score, "finished": finished})
            self.ranks.on_driver(lambda: self._give_its_name(scratch, path, step), patient=True)
        return path

    def _give_its_name(self, scratch: Path, path: Path, step: int) -> None:
        replace_directory(scratch, path)
        self._mark(step)

    def _write(
        self,
        scratch: Path,
        models: Mapping[str, TrainedModel],
        data: Any,
        trainer: Mapping[str, Any],
        notes: dict[str, Any],
    ) -> None:
        ranks = self.ranks
        ranks.on_driver(self._remove_leftovers, patient=True)
        for name, model in models.items():  # one after the other: rank 0 holds a whole model meanwhile
            model.save(scratch / name, ranks)
            optimizer_state = model.optimizer_state(ranks)
            ranks.on_driver(partial(_save, optimizer_state, scratch / name / "optimizer.pt"), patient=True)
            del optimizer_state
        random_states = ranks.gather_objects(trainer["random"])

        def write_rest() -> None:
            _save(data, scratch / "data.pt")
            _save({**trainer, "random": random_states}, scratch / "trainer.pt")
            write_manifest(scratch, notes)

        ranks.on_driver(write_rest, patient=True)

    def _remove_leftovers(self) -> None:
        """Remove what a run that was killed has left."""
        for leftover in self.directory.glob(f"{WRITING}global_step_*"):
            shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def _writing(self, scratch: Path) -> Iterator[None]:
        """Go around the writing of a checkpoint: if it fails, give the space back and say why."""
        try:
            yield
        except Exception as error:
            if self.ranks.rank == 0:
                shutil.rmtree(scratch, ignore_errors=True)
            if isinstance(error, CheckpointError):
                raise CheckpointError(f"cannot save a checkpoint in {self.directory}: {error}") from error
            reason = None if is_connection_error(error) else _disk_error(error)
            if reason is None:
                raise
            raise CheckpointError(
                f"cannot save a checkpoint in {self.directory}: {reason}\n"
                "hint: make room or choose another trainer.default_local_dir (trainer.max_actor_ckpt_to_keep keeps "
                "fewer); the same command goes on from the last checkpoint"
            ) from error

    def weights(self, start: Path | None, name: str) -> str | None:
        """Return where the checkpoint that a run goes on from has a model's weights; None: it starts anew."""
        if start is None:
            return None
        if not self.ranks.on_driver((start / name).is_dir):
            raise ConfigError(
                f"{start} has no {name}: the run that wrote it trained none",
                "resume with the algorithm of that run; or start anew from its policy: trainer.resume_mode=disable "
                f"actor_rollout_ref.model.path={start}/actor",
            )
        return str(start / name)

    def begin(self, start: Path | None) -> None:
        """Set aside what this run does not continue, in `earlier_1` and so on, or it would be resumed next time.

        Those are the complete checkpoints of later steps than `start`, the one that the run goes on from; None: it
        starts anew, so that they are all.
        """
        self.ranks.on_driver(lambda: self._begin(start), patient=True)

    def _begin(self, start: Path | None) -> None:
        step = 0 if start is None else step_of(start)
        others = [path for path in reversed(self._all()) if step_of(path) > step]
        if not others:
            return
        aside = set_aside(others, "earlier")
        for name in (LATEST, BEST):
            (self.directory / name).unlink(missing_ok=True)
        if (left := self.last_complete()) is not None:
            self._mark(step_of(left))
        names = ", ".join(path.name for path in others)
        print(f"moved to {aside}, since this run does not continue them: {names}", file=sys.stderr)

    def newest(self) -> Path | None:
        """Find the last checkpoint that is undamaged, and move damaged ones after it aside.

        Raises:
            ConfigError: there are checkpoints, and all are damaged.
        """
        damaged: dict[Path, str] = {}
        for path in self._all():
            problem = what_is_wrong(path, digests=self.digests)
            if problem is None:
                if damaged:
                    aside = set_aside(list(damaged), "damaged")
                    for other, reason in damaged.items():
                        print(f"warning: {other.name} is damaged, and is in {aside} now: {reason}", file=sys.stderr)
                    print(f"going on from the one before: {path}", file=sys.stderr)
                return path
            damaged[path] = problem
        if damaged:
            listed = "".join(f"\n  {path.name}: {problem}" for path, problem in damaged.items())
            raise ConfigError(
                f"every checkpoint in {self.directory} is damaged{listed}",
                "restore the named files from a backup; or start anew with trainer.resume_mode=disable, which "
                "moves these checkpoints aside",
            )
        return None

    def last_complete(self) -> Path | None:
        """Return the last complete checkpoint, as this process sees the disk."""
        return next((path for path in self._all() if what_is_wrong(path) is None), None)

    def best(self) -> Path | None:
        """Return the complete checkpoint with the best score, as this process sees the disk."""
        return best_of([path for path in self._all() if what_is_wrong(path) is None])

    def to_resume(self, mode: str, path: str | None) -> Path | None:
        """Find what `trainer.resume_mode` asks for; None: start anew. Only rank 0 looks at the disk."""
        return self.ranks.on_driver(lambda: self._to_resume(mode, path), patient=True)

    def _to_resume(self, mode: str, path: str | None) -> Path | None:
        for found in recover(self.directory):
            print(f"recovered {found}: the run was killed before it had this name", file=sys.stderr)
        if mode == "disable":
            return None
        if mode == "auto":
            last = next(iter(self._all()), None)
            ended = last is not None and what_is_wrong(last) is None and notes_of(last).get("finished")
            return None if ended else self.newest()
        if path is None:
            raise ConfigError("trainer.resume_mode is resume_path", "set trainer.resume_from_path=.../global_step_N")
        chosen = Path(path)
        if not NAME.fullmatch(chosen.name) or not chosen.is_dir():
            raise ConfigError(
                f"{path} is not a global_step_N directory", "set trainer.resume_from_path=.../global_step_N"
            )
        problem = what_is_wrong(chosen, digests=self.digests)
        if problem is not None:
            raise ConfigError(f"cannot resume from {path}: {problem}", "choose another global_step_N directory")
        return chosen

    def _all(self) -> list[Path]:
        return all_checkpoints(self.directory)

    def _mark(self, step: int) -> None:
        """Note which checkpoint is the latest and which the best, and remove those that are too many."""
        write_text(self.directory / LATEST, str(step))
        complete = [path for path in self._all() if what_is_wrong(path) is None]
        best = best_of(complete)
        if best is not None:
            write_text(self.directory / BEST, str(step_of(best)))
        if self.keep is not None:
            older = [path for path in complete if step_of(path) <= step and path != best]
            for path in older[max(self.keep, 1) :]:
                remove(path)


def all_checkpoints(directory: Path) -> list[Path]:
    """List the checkpoints in a run's directory, the newest first, whether or not they are complete."""
    found = [path for path in directory.glob("global_step_*") if NAME.fullmatch(path.name)]
    return sorted(found, key=step_of, reverse=True)


def best_of(complete: list[Path]) -> Path | None:
    """Choose the checkpoint with the best score in validation, the later one of equals; None: none has a score."""
    scores = {path: notes_of(path).get("score") for path in complete}
    scored = [path for path in complete if isinstance(scores[path], (int, float))]
    return max(scored, key=lambda path: (scores[path], step_of(path)), default=None)


def step_of(path: Path) -> int:
    """Return the number of steps done at a checkpoint."""
    return int(path.name.removeprefix("global_step_"))


def load_state(path: Path, ranks: Ranks) -> tuple[dict[str, Any], Any, dict[str, Any] | None]:
    """Read the state of trainer and data loader, and the random state of this process; None if the run had fewer."""
    names = ("trainer.pt", "data.pt")
    trainer, data = ranks.on_driver(lambda: [read_state(path / name) for name in names], patient=True)
    random_states = trainer.pop("random")
    return trainer, data, random_states[ranks.rank] if ranks.rank < len(random_states) else None


def load_optimizer_state(path: Path, ranks: Ranks) -> dict[str, Any] | None:
    """Read optimizer's and scheduler's state of one of a checkpoint's models; None on other processes than rank 0."""
    # An error that rank 0 alone knew would leave the others waiting.
    state: list[dict[str, Any]] = []
    ranks.on_driver(lambda: state.append(read_state(path / "optimizer.pt")), patient=True)
    return state[0] if state else None


@contextlib.contextmanager
def restoring(path: Path) -> Iterator[None]:
    """Turn an error in what restores a run from a checkpoint's state into one that names the checkpoint."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, AssertionError) as error:
        if isinstance(error, (ConfigError, HookError)) or is_connection_error(error):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"cannot go on from {path}: its state does not fit this run ({reason:.300})",
            "resume with the config and the release of verl of the run that wrote it; or start anew from its weights: "
            f"trainer.resume_mode=disable actor_rollout_ref.model.path={path}/actor",
        ) from error


def check_storable(data: Any) -> None:
    """Check that the data loader's state, which a hook may have a part in, could be read from a checkpoint.

    Raises:
        ConfigError: it holds something that is neither a tensor, nor an array, nor plain data.
    """
    with tempfile.TemporaryDirectory() as scratch:
        try:
            _save(data, Path(scratch) / "data.pt")
        except CheckpointError as error:
            raise ConfigError(
                f"what the training data's state_dict() returns cannot be kept in a checkpoint: {error}",
                "numbers, text, lists, dicts, tensors and NumPy arrays can; classes that a module in custom/ gives to "
                "torch.serialization.add_safe_globals, too",
            ) from error


def _save(state: Any, file: Path) -> None:
    """Write a state, and see that it can be read again without running code."""
    try:
        with file.open("wb") as opened:  # opened here, or torch would not say what the disk has refused
            torch.save(state, opened)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CheckpointError(str(error)) from error
    try:
        read_state(file)
    except ConfigError as error:
        raise CheckpointError(str(error).partition("\n")[0].partition(f"{file}: ")[2]) from error


def _disk_error(error: BaseException) -> str | None:
    """Say what the disk, or the file system, has refused; None if the error is another one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause.strerror or str(cause)
        if number := NUMBER.search(str(cause)):  # safetensors
            return os.strerror(int(number[1]))
        cause = cause.__cause__ or cause.__context__
    return f"the disk does not take it ({error})" if DISK.search(str(error)) else None
