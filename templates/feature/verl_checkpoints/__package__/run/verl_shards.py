# vextract:template - edit freely
"""The shares of tensors that verl's FSDP workers save, read without running code.

    actor/model_world_size_8_rank_0.pt          of the weights: DTensors (plain tensors of a single process)
    actor/optim_world_size_8_rank_0.pt          of the optimizer's state: by FSDP2 like the weights; by FSDP1 of all the
                                                weights of a layer in one piece
    actor/extra_state_world_size_8_rank_0.pt    the learning rate's course, random states

Reference: `verl/utils/checkpoint/fsdp_checkpoint_manager.py`. What the files hold of `torch.distributed` depends on the
version of torch that wrote them, and is read as inert records; anything else but tensors and plain data is refused.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import serialization

from ..errors import ConfigError
from .checkpoint_files import MANIFEST, harmless, read_state

MODEL, OPTIMIZER, EXTRA = "model", "optim", "extra_state"
FILE = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")
STEP = re.compile(r"global_step_\d+")
LATEST = "latest_checkpointed_iteration.txt"
# Everything of these that a file names becomes a record; the class of shared tensors, a tensor.
PREFIX, SHARED = "torch.distributed.", ".DTensor"
HINT = "take the missing files from where the run was; or merge it with verl's model merger and train on from the model"


class SharedTensor(torch.Tensor):
    """Holds what a process saved of a tensor: its share, and how the whole is cut. Nothing can be computed with it."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise TypeError("a share of a tensor")


class Record:
    """Stands for an object of `torch.distributed`: what it was made of, and its state."""

    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> "Record":
        made = super().__new__(cls)
        made.arguments, made.state = arguments, {}
        return made

    def __init__(self, *arguments: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = next((part for part in state if part), {}) if isinstance(state, tuple) else state

    @property
    def kind(self) -> str:
        """Return the name of the class that it stands for."""
        return type(self).__name__


def is_of_verl(path: Path) -> bool:
    """Tell whether a directory is a checkpoint that verl wrote."""
    if (path / MANIFEST).is_file():
        return False
    return world_sizes(path / "actor") != [] or (path / "actor" / "huggingface" / "config.json").is_file()


def find(path: Path) -> Path | None:
    """Return the checkpoint of verl that a path is, is in, or that is the last of the run that it is of."""
    if path.name in ("actor", "critic") and STEP.fullmatch(path.absolute().parent.name):
        path = path.parent
    if (path / LATEST).is_file():
        path = path / f"global_step_{(path / LATEST).read_text(encoding='utf-8').strip()}"
    return path if is_of_verl(path) and STEP.fullmatch(path.absolute().name) else None


def world_sizes(folder: Path) -> list[int]:
    """Return for how many processes a model's directory has shares, the largest number first."""
    names = [FILE.fullmatch(file.name) for file in folder.glob("model_world_size_*.pt")]
    return sorted({int(name[1]) for name in names if name is not None}, reverse=True)


class Shares:
    """The shares of one model.

    Args:
        folder: its directory in a checkpoint.

    Attributes:
        world_size: how many processes wrote it.

    Raises:
        ConfigError: a file is missing, or cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sizes = world_sizes(folder)
        noted = folder / "fsdp_config.json"
        # A run that was resumed on other machines leaves the shares of both.
        known = json.loads(noted.read_text(encoding="utf-8")).get("world_size") if noted.is_file() else None
        if len(sizes) > 1 and known not in sizes:
            listed = ", ".join(map(str, sizes))
            raise ConfigError(f"{folder} has shares of {listed} processes", "leave those of one run there")
        self.world_size: int = known if known in sizes else sizes[0]
        self._models = self._read(MODEL)
        self.names = list(self._models[0])

    def weight(self, name: str) -> torch.Tensor:
        """Return a weight, whole, as it is on the disk: in memory once it is used."""
        return whole([shares[name] for shares in self._models], f"{name} of {self.folder}")

    def shape(self, name: str) -> torch.Size:
        """Return the shape of a weight, whole."""
        found: torch.Size = self._models[0][name].shape
        return found

    def optimizer_states(self) -> list[dict[str, Any]] | None:
        """Return each process's state of the optimizer; None: the run saved none."""
        return self._read(OPTIMIZER) if self._file(OPTIMIZER, 0).is_file() else None

    def schedule(self) -> dict[str, Any]:
        """Return the state of the learning rate's course; an empty one: the run saved none."""
        file = self._file(EXTRA, 0)
        return (read(file).get("lr_scheduler") or {}) if file.is_file() else {}

    def _read(self, kind: str) -> list[dict[str, Any]]:
        files = [self._file(kind, rank) for rank in range(self.world_size)]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise ConfigError(f"{self.folder} lacks {missing[0]}, one of {len(missing)} files", HINT)
        return [read(file) for file in files]

    def _file(self, kind: str, rank: int) -> Path:
        return self.folder / f"{kind}_world_size_{self.world_size}_rank_{rank}.pt"


def read(file: Path) -> Any:
    """Read a file that verl wrote; its shared tensors are `SharedTensor`s.

    Raises:
        ConfigError: it cannot be read, or holds more than data.
    """
    try:
        with _as_records(file):
            return read_state(file)
    except ConfigError as error:
        raise ConfigError(error.message, HINT) from error


def whole(shares: Sequence[Any], what: str) -> torch.Tensor:
    """Put the processes' shares of a tensor together. One that they do not share is the first's.

    Args:
        shares: in the order of the ranks.
        what: for messages.

    Raises:
        ConfigError: it is cut in a way that FSDP does not cut.
    """
    first = shares[0]
    if not isinstance(first, SharedTensor):
        return first  # type: ignore[no-any-return]
    cuts = [placement for placement in _placements(first) if placement.kind != "Replicate"]
    if not cuts:
        return first._local_tensor  # type: ignore[attr-defined, no-any-return]
    if len(cuts) > 1 or cuts[0].kind != "Shard":
        kinds = ", ".join(cut.kind for cut in cuts)
        raise ConfigError(f"cannot read {what}: it is shared as {kinds}, and not as FSDP alone does", HINT)
    axis = cuts[0].state["dim"] if "dim" in cuts[0].state else cuts[0].arguments[0]
    parts, size = [], 0
    for share in shares:  # of several replicas the first comes first
        if size == first.shape[axis]:
            break
        parts.append(share._local_tensor)
        size += parts[-1].shape[axis]
    found = torch.cat(parts, dim=axis)
    if found.shape != first.shape:
        raise ConfigError(f"cannot read {what}: its shares are {list(found.shape)} of {list(first.shape)}", HINT)
    return found


def _placements(tensor: Any) -> Sequence[Record]:
    found: Sequence[Record] = tensor._spec.state["placements"]
    return found


@contextlib.contextmanager
def _as_records(file: Path) -> Iterator[None]:
    """Have torch read what a file names of `torch.distributed` as records within it, and refuse all else as always."""
    before = serialization.get_safe_globals()
    serialization.clear_safe_globals()  # torch's own classes, which may be of another version than the file's
    try:
        with serialization.safe_globals(harmless()):
            try:
                named = serialization.get_unsafe_globals_in_checkpoint(file)
            except Exception:  # not what torch writes: reading it says so
                named = []
        stand_ins: list[Any] = []
        for name in named:
            if name.startswith(PREFIX):
                own = SharedTensor if name.endswith(SHARED) else type(name.rpartition(".")[2], (Record,), {})
                stand_ins.append((own, name))
        serialization.add_safe_globals(stand_ins)
        yield
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(before)


def flat_parts(piece: torch.Tensor, shapes: Mapping[str, torch.Size]) -> dict[str, torch.Tensor] | None:
    """Cut what FSDP1 keeps in one piece, whose end is filled up, into tensors; None: it is of another size.

    Args:
        piece: (n,), n being at least the number of all their elements.
        shapes: of the tensors, in order.
    """
    sizes = [shape.numel() for shape in shapes.values()]
    if piece.dim() != 1 or piece.numel() < sum(sizes):
        return None
    parts = piece[: sum(sizes)].split(sizes)
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
