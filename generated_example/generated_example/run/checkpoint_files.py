# vextract:template base/__package__/run/checkpoint_files.py - edit freely
"""The files of a checkpoint: listed with size and SHA-256, compared before they are used, read without running code.

A checkpoint is written beside its place and then renamed. What a killed run leaves of that is finished by `recover`.
"""

import hashlib
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError, ProjectError

MANIFEST = "complete.json"
# Prefixes of a checkpoint that is being written, and of one that another of the same step is replacing.
WRITING, OUTDATED = ".writing_", ".outdated_"
PIECE = 2**22  # bytes read at a time
LARGE = 2**30  # bytes from which on comparing digests takes a second or more

# Directories whose digests this process has compared already.
_compared: set[tuple[Path, str]] = set()


class CheckpointError(ProjectError, RuntimeError):
    """A checkpoint could not be written. The text ends with a hint that says what to do."""


class DamagedError(ValueError):
    """A checkpoint is not what was written."""


def what_is_wrong(path: Path, *, digests: bool = False, part: str = "") -> str | None:
    """Say why a directory is not a complete checkpoint; None if it is one.

    Args:
        path: the directory.
        digests: compare the contents of files as well, which reads them all; otherwise only their sizes.
        part: only files whose names begin so.

    Raises:
        ConfigError: this user may not read it.
    """
    try:
        notes = notes_of(path)
        names = [name for name in sorted(notes["files"]) if name.startswith(part)]
        for name in names:
            if not (path / name).is_file():
                raise DamagedError(f"{name} is missing")
            found, size = (path / name).stat().st_size, notes["files"][name]
            if found != size:
                raise DamagedError(f"{name} has {found} bytes instead of {size}")
        if digests and "sha256" in notes and (path.absolute(), part) not in _compared:
            _compare(path, names, notes)
            _compared.add((path.absolute(), part))
    except DamagedError as error:
        return str(error)
    except PermissionError as error:
        raise ConfigError(
            f"cannot read the checkpoint {path}: {error.strerror} ({error.filename})",
            "give this user the right to read it, or move it out of the run's directory",
        ) from error
    except OSError as error:
        return f"{Path(error.filename or path).name} cannot be read: {error.strerror}"
    return None


def notes_of(path: Path) -> dict[str, Any]:
    """Read what a checkpoint says of itself: step, score, finished, files (sizes) and sha256.

    Raises:
        DamagedError: it has no such file, or the file has changed since it was written.
    """
    try:
        notes = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except PermissionError:
        raise
    except OSError as error:
        raise DamagedError(f"it has no readable {MANIFEST}, so writing it was interrupted") from error
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{MANIFEST} is damaged: it is not valid JSON") from error
    if not isinstance(notes, dict) or not isinstance(notes.get("files"), dict):
        raise DamagedError(f"{MANIFEST} is damaged")
    # The first projects listed no digests.
    own = notes.pop("own_sha256", None)
    if own != _digest_of_notes(notes) and not (own is None and "sha256" not in notes):
        raise DamagedError(f"{MANIFEST} is damaged")
    _, is_one, step = path.name.rpartition("global_step_")
    if is_one and str(notes.get("step", step)) != step:
        raise DamagedError(f"{MANIFEST} is of step {notes['step']}")
    return notes


def write_manifest(directory: Path, notes: Mapping[str, Any]) -> None:
    """Bring everything in the directory to the disk, and then note that it is complete.

    Args:
        directory: where the files are.
        notes: what else it says.
    """
    sync_tree(directory)
    seal(directory, notes, digests_in(directory, files_in(directory)))


def seal(directory: Path, notes: Mapping[str, Any], digests: Mapping[str, str]) -> None:
    """Note that a directory is complete, with the sizes and digests of its files."""
    sizes = {name: (directory / name).stat().st_size for name in sorted(digests)}
    written = {**notes, "files": sizes, "sha256": {name: digests[name] for name in sizes}}
    write_text(directory / MANIFEST, json.dumps({**written, "own_sha256": _digest_of_notes(written)}, indent=1))


def files_in(directory: Path) -> list[str]:
    """List the files below a directory, sorted."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def digests_in(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of some files in a directory, by name: four files at a time, about 0.6 s a GB on one core."""
    own = list(names)
    with ThreadPoolExecutor(max_workers=4) as threads:
        return dict(zip(own, threads.map(digest_of, [directory / name for name in own]), strict=True))


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    piece = memoryview(bytearray(PIECE))
    with file.open("rb", buffering=0) as opened:
        while count := opened.readinto(piece):
            digest.update(piece[:count])
    return digest.hexdigest()


def _digest_of_notes(notes: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(notes, sort_keys=True).encode()).hexdigest()


def _compare(path: Path, names: list[str], notes: Mapping[str, Any]) -> None:
    size = sum(notes["files"][name] for name in names)
    if size >= LARGE:
        print(f"comparing the SHA-256 of {size / 1e9:.1f} GB in {path}", file=sys.stderr, flush=True)
    for name, digest in digests_in(path, names).items():
        if digest != notes["sha256"].get(name):
            raise DamagedError(f"{name} has changed since it was written: its SHA-256 differs")


def check_saved_model(path: str) -> None:
    """Compare a model's directory with the checkpoint that it belongs to, if it belongs to one.

    Raises:
        ConfigError: it has changed since it was written.
    """
    folder = Path(path).expanduser()
    if not (folder.parent / MANIFEST).is_file() or (folder.parent.absolute(), "") in _compared:
        return
    problem = what_is_wrong(folder.parent, digests=True, part=f"{folder.name}/")
    if problem is not None:
        raise ConfigError(
            f"the model at {path} is damaged: {problem}", "take another checkpoint, or the file from a backup"
        )


def read_state(file: Path) -> Any:
    """Read what `torch.save` wrote: tensors, arrays and plain data. No code in it is run; tensors are read when used.

    Raises:
        ConfigError: it cannot be read, or holds something else.
    """
    try:
        with torch.serialization.safe_globals(harmless()):
            return torch.load(file, weights_only=True, map_location="cpu", mmap=True)
    except Exception as error:  # of many classes: torch did not write these bytes
        checkpoint = next((parent for parent in file.parents if parent.name.startswith("global_step_")), file.parent)
        raise ConfigError(
            f"cannot read {file}: {_reason(error)}",
            "move this checkpoint out of the run's directory to go on from the one before; or start anew from its "
            f"weights: trainer.resume_mode=disable actor_rollout_ref.model.path={checkpoint}/actor",
        ) from error


def _reason(error: Exception) -> str:
    """Return why torch does not read a file."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, pickle.UnpicklingError) and "nsupported" in str(error):
        found = re.findall(r"GLOBAL ([\w.]+)", str(error))
        return f"it holds more than data{', namely ' + found[0] if found else ''}, and could run code"
    return "it is damaged, or was not written by torch.save"


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
        raise CheckpointError(error.message.partition(f"{file}: ")[2]) from error


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


def replace_directory(scratch: Path, path: Path) -> None:
    """Give a checkpoint that is written its name; one of the same step that has it goes."""
    if path.exists():
        outdated = path.with_name(f"{OUTDATED}{path.name}")
        shutil.rmtree(outdated, ignore_errors=True)
        path.rename(outdated)
        scratch.rename(path)
        remove(outdated)
    else:
        scratch.rename(path)
    sync(path.parent)


def recover(directory: Path) -> list[Path]:
    """Finish what a killed run was doing when it gave a checkpoint its name.

    Returns:
        The checkpoints that have their names again.
    """
    found = []
    for prefix in (WRITING, OUTDATED):
        for hidden in sorted(directory.glob(f"{prefix}global_step_*")):
            path = hidden.with_name(hidden.name.removeprefix(prefix))
            if what_is_wrong(hidden) is not None:
                continue
            if path.exists():
                remove(hidden)
            else:
                hidden.rename(path)
                found.append(path)
    if found:
        sync(directory)
    return found


def set_aside(paths: list[Path], kind: str) -> Path:
    """Move checkpoints into a new directory beside them: `kind` and a number.

    Raises:
        ConfigError: they cannot be moved.
    """
    directory = paths[0].parent
    numbered = (directory / f"{kind}_{number}" for number in range(1, 10**6))
    aside = next(folder for folder in numbered if not folder.exists())
    try:
        aside.mkdir()
        for path in paths:
            path.rename(aside / path.name)
    except OSError as error:
        raise ConfigError(
            f"cannot move checkpoints of {directory} to {aside}: {error.strerror}",
            "move them yourself, or set another trainer.default_local_dir",
        ) from error
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
    for path in sorted(directory.rglob("*")):
        sync(path)
    sync(directory)


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
