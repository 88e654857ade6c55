# vextract:template - edit freely
"""What a checkpoint holds besides weights: written by torch, read again without running code."""

import contextlib
import os
import pickle
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..errors import ConfigError, ProjectError
from ..training.hook_errors import HookError
from .checkpoint_files import read_state
from .distributed import Ranks
from .peers import is_connection_error

# How torch and safetensors report that a disk refuses what is written, in exceptions of their own.
DISK = re.compile(r"I/O error|iostream|inline_container")
NUMBER = re.compile(r"os error (\d+)")


class CheckpointError(ProjectError, RuntimeError):
    """A checkpoint could not be written. The text ends with a hint that says what to do."""


def load_state(path: Path, ranks: Ranks) -> tuple[dict[str, Any], Any, dict[str, Any] | None]:
    """Read the state of trainer and data loader, and the random state of this process; None if the run had fewer."""
    names = ("trainer.pt", "data.pt")
    trainer, data = ranks.on_driver(lambda: [read_state(path / name) for name in names])
    random_states = trainer.pop("random")
    return trainer, data, random_states[ranks.rank] if ranks.rank < len(random_states) else None


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
            save_state(data, Path(scratch) / "data.pt")
        except CheckpointError as error:
            raise ConfigError(
                f"what the training data's state_dict() returns cannot be kept in a checkpoint: {error}",
                "numbers, text, lists, dicts, tensors and NumPy arrays can; classes that a module in custom/ gives to "
                "torch.serialization.add_safe_globals, too",
            ) from error


def save_state(state: Any, file: Path) -> None:
    """Write a state, and see that it can be read again without running code.

    Raises:
        CheckpointError: it could not.
    """
    try:
        with file.open("wb") as opened:  # opened here, or torch would not say what the disk has refused
            torch.save(state, opened)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CheckpointError(str(error)) from error
    try:
        read_state(file)
    except ConfigError as error:
        raise CheckpointError(str(error).partition("\n")[0].partition(f"{file}: ")[2]) from error


def disk_error(error: BaseException) -> str | None:
    """Say what the disk, or the file system, has refused; None if the error is another one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause.strerror or str(cause)
        if number := NUMBER.search(str(cause)):  # safetensors
            return os.strerror(int(number[1]))
        cause = cause.__cause__ or cause.__context__
    return f"the disk does not take it ({error})" if DISK.search(str(error)) else None
