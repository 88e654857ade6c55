# vextract:template - edit freely; upgrades merge your edits
"""Checkpoints that are there whole or not at all, and from which a run goes on bit for bit.

global_step_20/
    actor/          Hugging Face format: load it with transformers, serve it with vLLM; and optimizer.pt. Of a run that
                    trains an adapter: the adapter, in peft's format
    critic/         the same, if there is a critic
    data.pt         where the data loader was
    trainer.pt      random states of every process, KL controller, sample ids
    complete.json   every file's size; written last
latest_checkpointed_iteration.txt, best_checkpointed_iteration.txt
earlier_1/          checkpoints of a run that was started anew in this directory
"""

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ..workers.trained_model import TrainedModel
from .config_loading import ConfigError
from .distributed import Ranks
from .watch import is_connection_error

# What torch and safetensors say of a disk that is full, in errors of their own.
DISK = re.compile(r"No space left|I/O error|iostream|inline_container")
MANIFEST = "complete.json"
LATEST = "latest_checkpointed_iteration.txt"
BEST = "best_checkpointed_iteration.txt"


class CheckpointError(RuntimeError):
    """A checkpoint could not be written. The text ends with a hint that says what to do."""


class Checkpoints:
    """The checkpoints in a run's directory.

    Args:
        directory: `trainer.default_local_dir`.
        ranks: rank 0 writes; every process must call `save`.
        keep: how many to keep, besides the best; None: all.
    """

    def __init__(self, directory: Path, ranks: Ranks, keep: int | None = None) -> None:
        self.directory = directory
        self.ranks = ranks
        self.keep = keep

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
        scratch = self.directory / f".writing_global_step_{step}"
        with self._writing(scratch):
            self._write(scratch, models, data, trainer, {"step": step, "score": score, "finished": finished})
            if self.ranks.rank == 0:
                _replace_directory(scratch, path)
                self._mark(step)
        self.ranks.barrier()
        return path

    def _write(
        self,
        scratch: Path,
        models: Mapping[str, TrainedModel],
        data: Any,
        trainer: Mapping[str, Any],
        notes: dict[str, Any],
    ) -> None:
        writes = self.ranks.rank == 0
        if writes:
            for leftover in self.directory.glob(".writing_global_step_*"):  # of a run that was killed
                shutil.rmtree(leftover, ignore_errors=True)
        for name, model in models.items():  # one after the other: rank 0 holds a whole model meanwhile
            model.save(scratch / name, self.ranks)
            optimizer_state = model.optimizer_state(self.ranks)
            if writes:
                torch.save(optimizer_state, scratch / name / "optimizer.pt")
            del optimizer_state
        random_states = self.ranks.gather_objects(trainer["random"])
        if writes:
            torch.save(data, scratch / "data.pt")
            torch.save({**trainer, "random": random_states}, scratch / "trainer.pt")
            _write_manifest(scratch, notes)

    @contextlib.contextmanager
    def _writing(self, scratch: Path) -> Iterator[None]:
        """Around the writing of a checkpoint: if it fails, give the space back and say why."""
        try:
            yield
        except Exception as error:
            if self.ranks.rank == 0:
                shutil.rmtree(scratch, ignore_errors=True)
            reason = None if is_connection_error(error) else _disk_error(error)
            if reason is None:
                raise
            raise CheckpointError(
                f"cannot save a checkpoint in {self.directory}: {reason}\n"
                "hint: make room or choose another trainer.default_local_dir (trainer.max_actor_ckpt_to_keep keeps "
                "fewer); the same command goes on from the last checkpoint"
            ) from error

    def weights(self, start: Path | None, name: str) -> str | None:
        """Where the checkpoint that a run goes on from has a model's weights; None: it starts anew."""
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
        self.ranks.on_driver(lambda: self._begin(start))

    def _begin(self, start: Path | None) -> None:
        step = 0 if start is None else step_of(start)
        complete = [path for path in self._all() if what_is_wrong(path) is None]
        others = [path for path in reversed(complete) if step_of(path) > step]
        if not others:
            return
        numbers = (number for number in range(1, 10**6) if not (self.directory / f"earlier_{number}").exists())
        aside = self.directory / f"earlier_{next(numbers)}"
        aside.mkdir()
        for path in others:
            path.rename(aside / path.name)
        for name in (LATEST, BEST):
            (self.directory / name).unlink(missing_ok=True)
        if len(others) < len(complete):
            self._mark(step_of(complete[len(others)]))
        names = ", ".join(path.name for path in others)
        print(f"moved to {aside}, since this run does not continue them: {names}", file=sys.stderr)

    def newest(self) -> Path | None:
        """The last complete checkpoint; says so about newer ones that are not complete."""
        for path in self._all():
            problem = what_is_wrong(path)
            if problem is None:
                return path
            print(f"warning: skipping {path}: {problem}", file=sys.stderr)
        return None

    def last_complete(self) -> Path | None:
        """The last complete checkpoint, as this process sees the disk."""
        return next((path for path in self._all() if what_is_wrong(path) is None), None)

    def to_resume(self, mode: str, path: str | None) -> Path | None:
        """The checkpoint that `trainer.resume_mode` asks for; None: start anew. Only rank 0 looks at the disk."""
        return self.ranks.on_driver(lambda: self._to_resume(mode, path))

    def _to_resume(self, mode: str, path: str | None) -> Path | None:
        if mode == "disable":
            return None
        if mode == "auto":
            newest = self.newest()
            return None if newest is None or _notes(newest).get("finished") else newest
        if path is None:
            raise ConfigError("trainer.resume_mode is resume_path", "set trainer.resume_from_path=.../global_step_N")
        problem = what_is_wrong(Path(path))
        if problem is not None:
            raise ConfigError(f"cannot resume from {path}: {problem}", "choose another global_step_N directory")
        return Path(path)

    def _all(self) -> list[Path]:
        """Newest first."""
        found = [path for path in self.directory.glob("global_step_*") if re.fullmatch(r"global_step_\d+", path.name)]
        return sorted(found, key=step_of, reverse=True)

    def _mark(self, step: int) -> None:
        """Note which checkpoint is the latest and which the best, and remove those that are too many."""
        _write_text(self.directory / LATEST, str(step))
        complete = [path for path in self._all() if what_is_wrong(path) is None]
        scores = {path: _notes(path)["score"] for path in complete}
        scored = [path for path in complete if scores[path] is not None]
        best = max(scored, key=lambda path: (scores[path], step_of(path)), default=None)
        if best is not None:
            _write_text(self.directory / BEST, str(step_of(best)))
        if self.keep is not None:
            older = [path for path in complete if step_of(path) <= step and path != best]
            for path in older[max(self.keep, 1) :]:
                shutil.rmtree(path)


def step_of(path: Path) -> int:
    """The number of steps done at a checkpoint."""
    return int(path.name.removeprefix("global_step_"))


def what_is_wrong(path: Path) -> str | None:
    """Why a directory is no complete checkpoint; None if it is one."""
    try:
        files = json.loads((path / MANIFEST).read_text())["files"]
    except (OSError, ValueError, KeyError):
        return f"it has no readable {MANIFEST}, so writing it was interrupted"
    for name, size in files.items():
        file = path / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size} bytes instead of {size}"
    return None


def _notes(path: Path) -> dict[str, Any]:
    """What a complete checkpoint says of itself."""
    notes: dict[str, Any] = json.loads((path / MANIFEST).read_text())
    return notes


def load_state(path: Path, ranks: Ranks) -> tuple[dict[str, Any], Any, dict[str, Any] | None]:
    """A checkpoint's trainer state, its data loader state, and the random state of this process (if it had one)."""
    trainer, data = ranks.on_driver(
        lambda: [torch.load(path / name, weights_only=False) for name in ("trainer.pt", "data.pt")]
    )
    random_states = trainer.pop("random")
    return trainer, data, random_states[ranks.rank] if ranks.rank < len(random_states) else None


def load_optimizer_state(path: Path, ranks: Ranks) -> dict[str, Any] | None:
    """Optimizer's and scheduler's state of one of a checkpoint's models; None on other processes than rank 0."""
    if ranks.rank != 0:
        return None
    state: dict[str, Any] = torch.load(path / "optimizer.pt", weights_only=False, map_location="cpu", mmap=True)
    return state


def _disk_error(error: BaseException) -> str | None:
    """What the disk, or the file system, has refused; None if the error is another one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause.strerror or str(cause)
        cause = cause.__cause__ or cause.__context__
    return str(error) if DISK.search(str(error)) else None


def sync_tree(directory: Path) -> None:
    """Bring everything in a directory to the disk."""
    for path in sorted(directory.rglob("*")):
        _sync(path)
    _sync(directory)


def _write_manifest(directory: Path, entries: dict[str, Any]) -> None:
    """Bring everything in the directory to the disk, and then note that it is complete."""
    sync_tree(directory)
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    sizes = {path.relative_to(directory).as_posix(): path.stat().st_size for path in files}
    _write_text(directory / MANIFEST, json.dumps({**entries, "files": sizes}, indent=1))


def _replace_directory(scratch: Path, path: Path) -> None:
    if path.exists():
        outdated = path.with_name(f".outdated_{path.name}")
        shutil.rmtree(outdated, ignore_errors=True)
        path.rename(outdated)
        scratch.rename(path)
        shutil.rmtree(outdated)
    else:
        scratch.rename(path)
    _sync(path.parent)


def _write_text(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.writing")
    scratch.write_text(text)
    _sync(scratch)
    scratch.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
