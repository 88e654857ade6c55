# vextract:template - edit freely
"""Checkpoints of which each process writes its own share, and that are written while training goes on.

A model's directory in one of shares has weights/ and optimizer/ as in shards.py; `export` makes a model of it.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..training.checkpoint import Checkpoints, remove_leftovers
from ..workers.shared_parts import parts_of
from ..workers.trained_model import TrainedModel
from .background import Background, without_deadline
from .checkpoint_files import WRITING
from .distributed import Ranks, is_connection_error


class SharedCheckpoints(Checkpoints):
    """The checkpoints in a run's directory, as `local.checkpoint` has them written.

    Attributes:
        sharded: whether each process writes its own share.
        background: what writes a checkpoint beside training.
        may_go_on: whether training may go on before a checkpoint is written.

    Args:
        settings: `local.checkpoint`.
        arguments, named: see `Checkpoints`.
    """

    def __init__(self, settings: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.settings = settings
        self.sharded = False
        self.background = Background()
        self.may_go_on = False
        self._own_group: Ranks | None = None

    def begin(self, start: Path | None) -> None:
        """Set aside what this run does not continue; see `Checkpoints`."""
        super().begin(start)
        self._writers()

    def save(self, *arguments: Any, **named: Any) -> Path:
        """Write a checkpoint, under its name only once it is complete and on disk; see `beside_training`.

        Raises:
            CheckpointError: it could not be written; or the one before, which was being written, could not.
        """
        self.wait()
        self._writers()
        return super().save(*arguments, **named)

    def elsewhere(self, directory: Path) -> Checkpoints:
        """Return the same for another directory, which is written to while training waits."""
        other = super().elsewhere(directory)
        assert isinstance(other, SharedCheckpoints)
        other.background, other.may_go_on = Background(), False
        return other

    def wait(self) -> None:
        """Wait for a checkpoint that is being written; every process must call this.

        Raises:
            CheckpointError: it could not be written.
        """
        if self.background.is_going_on() and self.ranks.rank == 0:
            print(f"waiting until {self.background.name} is written", file=sys.stderr, flush=True)
        self.background.wait()

    @property
    def _copies(self) -> bool:
        """Tell whether what is written is copied, so that training may go on."""
        return bool(self.may_go_on and self.settings.asynchronous)

    def _write(
        self, path: Path, models: Mapping[str, TrainedModel], states: dict[str, Any], notes: dict[str, Any]
    ) -> None:
        parts = self._parts(models)
        if not self._copies:
            self._write_now(path, parts, states, notes)
            return
        copied = list(parts)
        self.background.start(path.name, lambda: self._write_now(path, copied, states, notes))

    def _parts(self, models: Mapping[str, TrainedModel]) -> Iterator[tuple[str, Any]]:
        """Return what writes the models, each with the name of its directory."""
        for name, model in models.items():
            for write in parts_of(model, self.ranks, sharded=self.sharded, copies=self._copies):
                yield name, write

    def _write_now(
        self, path: Path, parts: Iterable[tuple[str, Any]], states: dict[str, Any], notes: dict[str, Any]
    ) -> None:
        if torch.cuda.is_available():  # a thread begins with the first GPU
            torch.cuda.set_device(self.ranks.local_rank)
        scratch = path.with_name(f"{WRITING}{path.name}")
        writers = self._writers()
        digests: dict[str, str] = {}
        with self._writing(scratch):
            writers.on_driver(partial(remove_leftovers, self.directory))
            for name, write in parts:
                digests |= {f"{name}/{file}": digest for file, digest in write(scratch / name, writers).items()}
                del write  # and what it holds
            all_digests = {file: digest for part in writers.gather_objects(digests) for file, digest in part.items()}
            writers.on_driver(partial(self._finish, scratch, path, states, {**notes, "sha256": all_digests}))

    def _writers(self) -> Ranks:
        """Return the processes as they write: they wait as long as a disk takes."""
        if self._own_group is None:
            self._own_group = without_deadline(self.ranks)
            if self.settings.sharded or self.ranks.world_size > 1:
                from .shards import writes_shares  # imports much that a start of one process does not need

                self.sharded = writes_shares(self.settings.sharded, self.directory, self.ranks)
        return self._own_group


@contextlib.contextmanager
def beside_training(checkpoints: Checkpoints, may_go_on: bool) -> Iterator[None]:
    """With `local.checkpoint.asynchronous`, have what is saved within it be written while training goes on."""
    assert isinstance(checkpoints, SharedCheckpoints)
    checkpoints.may_go_on = may_go_on
    try:
        yield
    finally:
        checkpoints.may_go_on = False


@contextlib.contextmanager
def waiting_for_last(checkpoints: Checkpoints) -> Iterator[None]:
    """Wait at the end for a checkpoint that is being written. Its error hides no other one that ends the run."""
    assert isinstance(checkpoints, SharedCheckpoints)
    try:
        yield
    except BaseException:
        try:
            checkpoints.wait()
        except Exception as failure:
            if checkpoints.ranks.rank == 0 and not is_connection_error(failure):
                print(f"warning: {failure}", file=sys.stderr)
        raise
    checkpoints.wait()


def raise_failure(checkpoints: Checkpoints) -> None:
    """Raise the error of a checkpoint that was being written, on all processes as soon as one knows it."""
    assert isinstance(checkpoints, SharedCheckpoints)
    if checkpoints.background.name is not None and checkpoints.ranks.any(checkpoints.background.has_failed()):
        checkpoints.wait()
