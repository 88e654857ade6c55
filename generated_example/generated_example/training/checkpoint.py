# vextract:template base/__package__/training/checkpoint.py - edit freely
"""Checkpoints that are there whole or not at all, and from which a run goes on bit for bit.

global_step_20/
    actor/          Hugging Face format: load it with transformers, serve it with vLLM; and optimizer.pt. Of a run that
                    trains an adapter: the adapter, in peft's format
    critic/, reward_model/    the same, with the features critic and prime
    data.pt         where the data loader was
    trainer.pt      random states of every process, KL controller, sample ids
    complete.json   every file's size; written last
latest_checkpointed_iteration.txt
earlier_1/          checkpoints that the run in this directory does not continue, or that are damaged
"""

import contextlib
import copy
import math
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import ConfigError, os_error
from ..hooks import HookError
from ..run.checkpoint_files import (
    MANIFEST,
    WRITING,
    CheckpointError,
    notes_of,
    publish,
    read_state,
    remove,
    remove_leftovers,
    save_state,
    set_aside,
    what_is_wrong,
    write_manifest,
    write_text,
)
from ..run.distributed import Ranks, is_connection_error
from ..settings.setting_checks import resume_hint
from ..workers.trained_model import TrainedModel, parts_of

LATEST = "latest_checkpointed_iteration.txt"
NAME = re.compile(r"global_step_\d+")


class Checkpoints:
    """The checkpoints in a run's directory.

    Args:
        directory: `trainer.default_local_dir`.
        ranks: every process must call `save`.
        keep: how many to keep; None: all.
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
            models: by the name of their directory: actor, critic, reward_model.
            data: the data loader's state.
            trainer: whatever else the run needs to go on. `random` in it differs between processes.
            score: of validation: the higher, the better.
            finished: it holds the result of a run that has ended and was not asked to save on the way.
                `trainer.resume_mode=auto` does not go on from it: the next run in the directory starts anew.

        Raises:
            CheckpointError: it could not be written.
        """
        path = self.directory / f"global_step_{step}"
        states = {"data.pt": data, "trainer.pt": {**trainer, "random": self.ranks.gather_objects(trainer["random"])}}
        score = score if score is not None and math.isfinite(score) else None
        self._write(path, models, states, {"step": step, "score": score, "finished": finished})
        return path

    def _write(
        self, path: Path, models: Mapping[str, TrainedModel], states: dict[str, Any], notes: dict[str, Any]
    ) -> None:
        """Write the models' parts one after the other, each of which is gathered as it is asked for, then the rest."""
        scratch = path.with_name(f"{WRITING}{path.name}")
        with self._writing(scratch):
            self.ranks.on_driver(partial(remove_leftovers, self.directory))
            for name, model in models.items():
                for write in parts_of(model, self.ranks):
                    self.ranks.on_driver(partial(write, scratch / name))
                    del write  # and what it holds
            self.ranks.on_driver(partial(self._finish, scratch, path, states, notes))

    def _finish(self, scratch: Path, path: Path, states: dict[str, Any], notes: dict[str, Any]) -> None:
        """Write the rest, give the checkpoint its name, and remove those that are too many now."""
        for name, state in states.items():
            save_state(state, scratch / name)
        write_manifest(scratch, notes)
        publish(scratch, path)
        self._mark(notes["step"])

    @contextlib.contextmanager
    def _writing(self, scratch: Path) -> Iterator[None]:
        """Go around the writing of a checkpoint: if it fails, give the space back and say why."""
        try:
            yield
        except Exception as error:
            if self.ranks.rank == 0:
                shutil.rmtree(scratch, ignore_errors=True)
            text = f"cannot save a checkpoint in {self.directory}"
            if isinstance(error, CheckpointError):
                raise CheckpointError(f"{text}: {error}") from error
            reason = None if is_connection_error(error) else os_error(error)
            if reason is None:
                raise
            raise CheckpointError(
                f"{text}: {reason.strerror or reason}\n"
                "hint: make room or choose another trainer.default_local_dir (trainer.max_actor_ckpt_to_keep keeps "
                "fewer); the same command goes on from the last checkpoint"
            ) from error

    def elsewhere(self, directory: Path) -> "Checkpoints":
        """Return the same for another directory, in which all are kept."""
        other = copy.copy(self)
        other.directory, other.keep = directory, None
        return other

    def begin(self, start: Path | None) -> None:
        """Move the checkpoints after `start` to `earlier_1` and so on, or the next run would resume from them.

        Args:
            start: the checkpoint that this run goes on from; None: it starts anew, and all are moved.
        """
        self.ranks.on_driver(lambda: self._begin(start))

    def _begin(self, start: Path | None) -> None:
        step = 0 if start is None else step_of(start)
        others = [path for path in all_checkpoints(self.directory) if step_of(path) > step]
        if not others:
            return
        was_result = start is None and _is_result(others[0])
        aside = set_aside(others)
        (self.directory / LATEST).unlink(missing_ok=True)
        if (left := self.last_complete()) is not None:
            self._mark(step_of(left))
        names = ", ".join(path.name for path in reversed(others))
        print(f"moved to {aside}, since this run does not continue them: {names}", file=sys.stderr)
        if was_result:
            at = shlex.quote(f"{aside}/{others[0].name}")
            further = f"trainer.resume_mode=resume_path trainer.resume_from_path={at}"
            print(f"  that run had come to its end; to train further from it: {further}", file=sys.stderr)

    def last_complete(self) -> Path | None:
        """Return the last complete checkpoint, as this process sees the disk."""
        return next(complete_in(self.directory), None)

    def to_resume(self, mode: str, path: str | None) -> Path | None:
        """Find what `trainer.resume_mode` asks for; None: start anew. Only rank 0 looks at the disk.

        Args:
            mode: auto, disable or resume_path.
            path: for the last of these: a checkpoint, or the directory of a run, whose last complete one is meant.

        Returns:
            A checkpoint, of this project or of verl.
        """
        return self.ranks.on_driver(lambda: self._to_resume(mode, path))

    def _to_resume(self, mode: str, path: str | None) -> Path | None:
        remove_leftovers(self.directory)
        if mode == "disable":
            return None
        if mode == "auto":
            found = all_checkpoints(self.directory)
            if found and not _is_result(found[0]):
                return self._undamaged(found)
            return None
        if path is None:
            raise ConfigError("trainer.resume_mode is resume_path, and no path is set", resume_hint(self.directory))
        chosen = Path(path)
        if not NAME.fullmatch(chosen.name):  # a run's directory
            chosen = next(complete_in(chosen), chosen)
        refuse_verl(chosen)
        if not NAME.fullmatch(chosen.name) or not chosen.is_dir():
            raise ConfigError(f"{path} is not a global_step_N directory", resume_hint(path, self.directory))
        if (problem := what_is_wrong(chosen)) is not None:
            raise ConfigError(f"cannot resume from {path}: {problem}", "choose another global_step_N directory")
        return chosen

    def _undamaged(self, found: list[Path]) -> Path:
        """Return the first of these checkpoints that is as it was written; `begin` sets the ones before it aside."""
        damaged: list[str] = []
        for path in found:
            refuse_verl(path)
            problem = what_is_wrong(path)
            if problem is None:
                for text in damaged:
                    print(f"warning: {text}; going on from {path.name}", file=sys.stderr)
                return path
            damaged.append(f"{path.name} is damaged: {problem}")
        raise ConfigError(
            "\n  ".join([f"every checkpoint in {self.directory} is damaged", *damaged]),
            "restore the named files from a backup; or start anew with trainer.resume_mode=disable, which "
            "moves these checkpoints aside",
        )

    def _mark(self, step: int) -> None:
        """Note which checkpoint is the latest, and remove those that are too many."""
        write_text(self.directory / LATEST, str(step))
        older = [path for path in complete_in(self.directory) if step_of(path) <= step]
        for path in older[self.keep :] if (self.keep or 0) > 0 else ():  # as in verl, 0 and -1 are all too
            remove(path)


def all_checkpoints(directory: Path) -> list[Path]:
    """List the checkpoints in a run's directory, the newest first, whether or not they are complete."""
    found = [path for path in directory.glob("global_step_*") if NAME.fullmatch(path.name)]
    return sorted(found, key=step_of, reverse=True)


def complete_in(directory: Path) -> Iterator[Path]:
    """Yield the complete checkpoints in a run's directory, the newest first."""
    return (path for path in all_checkpoints(directory) if what_is_wrong(path) is None)


def step_of(path: Path) -> int:
    """Return the number of steps done at a checkpoint."""
    return int(path.name.removeprefix("global_step_"))


def load_state(path: Path, models: Mapping[str, TrainedModel], ranks: Ranks) -> tuple[Any, ...]:
    """Put the optimizers back to where a checkpoint has them. Every process must call this.

    Returns:
        What else the checkpoint has: the arguments of the trainer's `restore`.
    """
    for name, model in models.items():
        model.load_optimizer_state(path / name, ranks)
    trainer, data = ranks.on_driver(lambda: [read_state(path / name) for name in ("trainer.pt", "data.pt")])
    random_states = trainer.pop("random")
    return step_of(path), trainer, data, random_states[ranks.rank] if ranks.rank < len(random_states) else None


@contextlib.contextmanager
def restoring(path: Path) -> Iterator[None]:
    """Turn an error while state is restored into a ConfigError that names the checkpoint."""
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


def _is_result(path: Path) -> bool:
    """Tell whether a checkpoint is the result of a run that has ended, and no place to go on from."""
    return what_is_wrong(path) is None and bool(notes_of(path).get("finished"))


def refuse_verl(path: Path) -> None:
    """Raise a ConfigError if verl wrote this checkpoint."""
    if not (path / MANIFEST).is_file() and any((path / "actor").glob("model_world_size_*.pt")):
        raise ConfigError(f"{path} is a checkpoint of verl", "vextract add verl_checkpoints")
