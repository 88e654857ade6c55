# vextract:template base/__package__/run/checkpoint_files.py - edit freely
"""The files of a checkpoint: listed with their sizes, looked at before they are used, read without running code.

A checkpoint is written beside its place, and renamed once it is complete.
"""

import itertools
import json
import os
import pickle
import re
import shutil
import sys
from collections import defaultdict, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError, ProjectError

MANIFEST = "complete.json"
WRITING = ".writing_"  # precedes the name of a checkpoint that is being written
FORMER = ".former_"  # of one that another of the same step replaces


class CheckpointError(ProjectError, RuntimeError):
    """A checkpoint could not be written. The text ends with a hint that says what to do."""


class DamagedError(ValueError):
    """A checkpoint is not what was written."""


def what_is_wrong(path: Path) -> str | None:
    """Say why a directory is not a complete checkpoint, by the sizes of its files; None if it is one."""
    try:
        notes = notes_of(path)
        for name, size in notes["files"].items():
            if not (path / name).is_file():
                return f"{name} is missing"
            if (found := (path / name).stat().st_size) != size:
                return f"{name} has {found} bytes instead of {size}"
    except DamagedError as error:
        return str(error)
    except OSError as error:
        return f"{Path(error.filename or path).name} cannot be read: {error.strerror}"
    return None


def notes_of(path: Path) -> dict[str, Any]:
    """Read what a checkpoint says of itself: step, score, finished, files (sizes), perhaps sha256.

    Raises:
        DamagedError: it has no such file, or the file is damaged.
    """
    try:
        notes = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DamagedError(f"it has no {MANIFEST}, so writing it was interrupted") from error
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{MANIFEST} is damaged: it is not valid JSON") from error
    if not isinstance(notes, dict) or not isinstance(notes.get("files"), dict):
        raise DamagedError(f"{MANIFEST} is damaged")
    return notes


def write_manifest(directory: Path, notes: Mapping[str, Any]) -> None:
    """Bring everything in the directory to the disk, and then note that it is complete, and what else `notes` say."""
    sync_tree(directory)
    files = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*")) if path.is_file()}
    sizes = {name: path.stat().st_size for name, path in files.items()}
    write_text(directory / MANIFEST, json.dumps({**notes, "files": sizes}, indent=1))


def read_state(file: Path) -> Any:
    """Read what `torch.save` wrote: tensors, arrays and plain data. No code in it is run; tensors are read when used.

    Raises:
        ConfigError: it cannot be read, or holds something else.
    """
    try:
        with torch.serialization.safe_globals(harmless()):
            return torch.load(file, weights_only=True, map_location="cpu", mmap=True)
    except Exception as error:  # of many classes: torch did not write these bytes
        reason = "it is damaged, or was not written by torch.save"
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        elif isinstance(error, pickle.UnpicklingError) and "nsupported" in str(error):
            found = re.findall(r"GLOBAL ([\w.]+)", str(error))
            reason = f"it holds more than data{', namely ' + found[0] if found else ''}, and could run code"
        checkpoint = next((parent for parent in file.parents if parent.name.startswith("global_step_")), file.parent)
        raise ConfigError(
            f"cannot read {file}: {reason}",
            "move this checkpoint out of the run's directory to go on from the one before; or start anew from its "
            f"weights: trainer.resume_mode=disable actor_rollout_ref.model.path={checkpoint}/actor",
        ) from error


def harmless() -> list[Any]:
    """Return what a state may hold besides tensors and plain data; building one of these runs no code of the file's."""
    rebuild: Any = np.zeros(1).__reduce__()[0]
    number: Any = np.float64(0).__reduce__()[0]
    # Files name these two by their module in the version of NumPy that wrote them.
    modules = ("numpy.core.multiarray", "numpy._core.multiarray")
    functions = [(function, f"{module}.{function.__name__}") for function in (rebuild, number) for module in modules]
    kinds: set[Any] = {type(np.dtype(code)) for code in np.typecodes["All"]}
    return [*functions, np.ndarray, np.dtype, *sorted(kinds, key=str), deque, defaultdict, list, dict, int, float]


def save_state(state: Any, file: Path) -> None:
    """Write a state, and see that it can be read again without running code.

    Raises:
        CheckpointError: it could not; it may be a hook's, as a dataset's state_dict() is.
    """
    try:
        with file.open("wb") as opened:  # opened here, or torch would not say what the disk has refused
            torch.save(state, opened)
        read_state(file)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CheckpointError(str(error)) from error
    except ConfigError as error:
        raise CheckpointError(error.message.partition(f"{file}: ")[2]) from error


def publish(scratch: Path, path: Path) -> None:
    """Give a complete checkpoint its name; one of the same step goes."""
    former = path.with_name(f"{FORMER}{path.name}")
    if path.exists():
        path.rename(former)
    scratch.rename(path)
    sync(path.parent)
    if former.exists():
        remove(former)


def remove_leftovers(directory: Path) -> None:
    """Remove what a run that was killed has left of a checkpoint that it was writing, or of one that it replaced."""
    for leftover in directory.glob(f"{WRITING}global_step_*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for former in directory.glob(f"{FORMER}global_step_*"):
        path = former.with_name(former.name.removeprefix(FORMER))
        if path.exists():
            remove(former)
        else:  # the other one was to take its place
            former.rename(path)


def set_aside(paths: list[Path]) -> Path:
    """Move checkpoints into a new directory beside them, earlier_1 and so on; return it."""
    directory = paths[0].parent
    aside = next(place for n in itertools.count(1) if not (place := directory / f"earlier_{n}").exists())
    aside.mkdir()
    for path in paths:
        path.rename(aside / path.name)
    sync(directory)
    return aside


def remove(path: Path) -> None:
    """Remove a checkpoint. Where it is a link, only the link goes. One that cannot be removed is named and stays."""
    try:
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)
    except OSError as error:
        print(f"warning: cannot remove {path}: {error.strerror}", file=sys.stderr)


def sync_tree(directory: Path) -> None:
    """Bring everything in a directory to the disk."""
    for path in (*sorted(directory.rglob("*")), directory):
        sync(path)


def sync(path: Path) -> None:
    """Bring a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a file that is there with this text or as it was before."""
    scratch = path.with_name(f".{path.name}.writing")
    scratch.write_text(text, encoding="utf-8")
    sync(scratch)
    scratch.replace(path)
    sync(path.parent)
