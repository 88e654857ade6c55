# vextract:template - edit freely
"""Tensors of which each process writes and reads its own share, by torch.distributed.checkpoint in safetensors.

    shard-00001-model-00001-of-00002.safetensors    the first process's shares; in two files, since they are large
    tensors.json                                    shape and dtype of every tensor

Any number of processes reads what any other has written. Reading runs no code: there is no pickle among the files.
"""

import contextlib
import json
import math
import re
import sys
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import DTensor, Shard

from ..errors import ConfigError
from ..output import install_command
from .checkpoint_files import digest_of
from .distributed import Ranks
from .share_names import LISTED

try:
    from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
except ImportError:  # torch 2.7
    HuggingFaceStorageReader = HuggingFaceStorageWriter = None

# A process that reads alone, or is alone, knows it.
warnings.filterwarnings("ignore", message=".*assuming the intent is to (save|load) in a single process")
FILE = re.compile(r"shard-(\d+)-.*\.safetensors")
# A process holds a file that it writes in memory once more.
BYTES_PER_FILE = 2**29
# Seconds that a disk may take to show one machine what another has written.
PATIENCE = 5.0
HINT = "take the missing files from a backup, or another checkpoint"


def writes_shares(wanted: bool | None, directory: Path, ranks: Ranks) -> bool:
    """Tell whether the processes of a run are to write their own shares; every process must call this.

    Args:
        wanted: `local.checkpoint.sharded`; None: if there are several, and they can.
        directory: the run's, which they must all see.
        ranks: this process among its peers.

    Raises:
        ConfigError: it is wanted, and cannot be.
    """
    if wanted is False or (wanted is None and ranks.world_size == 1):
        return False
    if wanted:
        check_available("write the shares of processes")
    elif HuggingFaceStorageWriter is None:
        return False
    blind = _without_sight_of(directory, ranks)
    if blind and wanted:
        raise ConfigError(
            f"rank {blind[0]} does not see what rank 0 writes in {directory}, so it cannot write its share there",
            "set trainer.default_local_dir to a directory on a disk that all machines share; or "
            "local.checkpoint.sharded=false",
        )
    if blind and ranks.rank == 0:
        text = f"note: not all processes see {directory}, so that rank 0 gathers the model and writes it"
        print(text, file=sys.stderr, flush=True)
    return not blind


def write_shards(tensors: Mapping[str, torch.Tensor], directory: Path, ranks: Ranks) -> dict[str, str]:
    """Write this process's shares of tensors. Every process must call this, with the same names in the same order.

    Args:
        tensors: by name; a tensor that the processes do not share is written by one of them.
        directory: on a disk that every process sees.
        ranks: without a deadline, since the processes wait for each other's disks.

    Returns:
        The SHA-256 of the files that this process wrote, by name.
    """
    writer = HuggingFaceStorageWriter(str(directory), fqn_to_index_mapping=_files(tensors), save_distributed=True)
    try:
        dcp.save(dict(tensors), storage_writer=writer, process_group=ranks.group, no_dist=ranks.world_size == 1)
    except dcp.api.CheckpointException as failed:
        raise _first_failure(failed) from failed
    listed = {name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in tensors.items()}
    ranks.on_driver(lambda: _write_list(listed, directory))
    return ranks.together(
        lambda: {path.name: digest_of(path) for path in sorted(directory.iterdir()) if _writer_of(path) == ranks.rank}
    )


def read_whole(directory: Path) -> dict[str, torch.Tensor]:
    """Read all tensors whole, into this process's memory.

    Raises:
        ConfigError: they cannot be read.
    """
    tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in listed(directory).items()}
    read_shares(tensors, directory)
    return tensors


def read_shares(tensors: dict[str, torch.Tensor], directory: Path) -> None:
    """Fill tensors that are `listed`: of one that the processes share, this process's share. None waits for another.

    Raises:
        ConfigError: they cannot be read.
    """
    if not tensors:
        return
    with _reading(directory):
        dcp.load(tensors, storage_reader=HuggingFaceStorageReader(str(directory)), no_dist=True)


def listed(directory: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Return shape and dtype of every tensor, by name; all of each is there.

    Raises:
        ConfigError: the list is damaged, or the files lack a part of a tensor.
    """
    check_available(f"read {directory}")
    with _reading(directory):
        entries = json.loads((directory / LISTED).read_text(encoding="utf-8"))
        tensors = {name: (torch.Size(shape), _dtype(text)) for name, (shape, text) in entries.items()}
        found = HuggingFaceStorageReader(str(directory)).read_metadata().state_dict_metadata
        for name, (shape, dtype) in tensors.items():
            there = sum(chunk.sizes.numel() for chunk in found[name].chunks) if name in found else 0
            # What is read would otherwise be too small, and look whole.
            if there != shape.numel() or found[name].size != shape or found[name].properties.dtype != dtype:
                raise ConfigError(f"{directory} holds {there} of the {shape.numel()} numbers of {name}", HINT)
    return tensors


def check_available(why: str) -> None:
    """Check that this torch can write and read shards.

    Raises:
        ConfigError: it is too old.
    """
    if HuggingFaceStorageWriter is None:
        raise ConfigError(
            f"torch {torch.__version__} cannot {why}: its torch.distributed.checkpoint has no safetensors",
            f"{install_command('-U', 'torch')}; or local.checkpoint.sharded=false",
        )


def _without_sight_of(directory: Path, ranks: Ranks) -> list[int]:
    """Return the ranks of the processes that do not see a file that rank 0 writes in the directory."""
    sign = directory / ranks.on_driver(lambda: f".seen_by_all_{uuid.uuid4().hex}")
    ranks.on_driver(sign.touch)
    deadline = time.monotonic() + PATIENCE
    while not sign.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    seen = ranks.gather_objects(sign.exists())
    ranks.on_driver(sign.unlink)
    return [rank for rank, sees in enumerate(seen) if not sees]


def _files(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Deal tensors out to files, counted from 1, so that a process's share of each is small enough."""
    numbers, number, size = {}, 1, 0
    for name, tensor in tensors.items():
        share = tensor.numel() * tensor.element_size() // _processes_of(tensor)
        if size and size + share > BYTES_PER_FILE:
            number, size = number + 1, 0
        numbers[name], size = number, size + share
    return numbers


def _processes_of(value: Any) -> int:
    """Count the processes between which a tensor is shared out; where each has all of it, 1."""
    if not isinstance(value, DTensor):
        return 1
    sizes = zip(value.device_mesh.shape, value.placements, strict=True)
    return math.prod(size for size, placement in sizes if isinstance(placement, Shard))


def _writer_of(path: Path) -> int | None:
    """Return the rank of the process that wrote a file; None if it holds no shares."""
    found = FILE.fullmatch(path.name)
    return int(found[1]) - 1 if found else None


def _write_list(tensors: Mapping[str, Any], directory: Path) -> None:
    (directory / LISTED).write_text(json.dumps(tensors, indent=1), encoding="utf-8")


def _dtype(text: str) -> torch.dtype:
    found = getattr(torch, text.removeprefix("torch."))
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{text} is no dtype")
    return found


def _first_failure(failed: dcp.api.CheckpointException) -> Exception:
    """Return the error of the first process that had one."""
    _, (error, _) = min(failed.failures.items())
    return error if isinstance(error, Exception) else RuntimeError(str(error))


@contextlib.contextmanager
def _reading(directory: Path) -> Iterator[None]:
    """Turn what goes wrong in reading, which has errors of many classes, into one that names the directory."""
    try:
        yield
    except ConfigError:
        raise
    except (Exception, dcp.api.CheckpointException) as error:
        cause = _first_failure(error) if isinstance(error, dcp.api.CheckpointException) else error
        raise ConfigError(f"cannot read {directory}: {' '.join(str(cause).split()):.300}", HINT) from error
