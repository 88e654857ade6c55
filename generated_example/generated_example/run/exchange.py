# vextract:template base/__package__/run/exchange.py - edit freely
"""Values go from process to process without their tensors being pickled.

A batch that is pickled is copied several times, and each process does that with all batches of all others. Here a
tensor in main memory goes as its bytes; the rest, which is small, is pickled.
"""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from tensordict import TensorDict

from ..vendored.protocol import DataProto

WORTH_IT = 4096  # bytes of a tensor that goes by itself


@dataclass
class Packed:
    """A value that can be sent.

    Attributes:
        data: the value pickled, but for its large tensors.
        tensors: these, contiguous, on the CPU.
    """

    data: bytes
    tensors: list[torch.Tensor]


def pack(value: Any) -> Packed:
    """Make a value ready to be sent.

    Raises:
        Exception: of any kind; it cannot be pickled.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return Packed(file.getvalue(), pickler.tensors)


def unpack(packed: Packed) -> Any:
    """Return the value. Its large tensors are those of `packed`, no copies."""
    return _Unpickler(packed).load()


def send_to_all(packed: Packed | None, source: int, group: dist.ProcessGroup | None) -> Packed:
    """Return what the process of rank `source` packed; the others give None. Every process of the group calls this."""
    head: list[Any] = [packed and (packed.data, _shapes(packed))]
    dist.broadcast_object_list(head, src=source, group=group)
    data, shapes = head[0]
    tensors = packed.tensors if packed else [torch.empty(shape, dtype=dtype) for shape, dtype in shapes]
    for tensor in tensors:
        dist.broadcast(_as_bytes(tensor), src=source, group=group)
    return Packed(data, tensors)


def gather_from_all(packed: Packed, group: dist.ProcessGroup | None) -> list[Packed]:
    """Return what each process packed, in the order of the ranks. Every process of the group calls this."""
    heads: list[Any] = [None] * dist.get_world_size(group)
    shapes = _shapes(packed)
    dist.all_gather_object(heads, (packed.data, shapes), group=group)
    if any(other != shapes for _, other in heads):
        own = dist.get_rank(group)
        return [send_to_all(packed if rank == own else None, rank, group) for rank in range(len(heads))]
    gathered = [Packed(data, []) for data, _ in heads]
    for tensor in packed.tensors:
        parts = [torch.empty_like(tensor) for _ in heads]
        dist.all_gather([_as_bytes(part) for part in parts], _as_bytes(tensor), group=group)
        for one, part in zip(gathered, parts, strict=True):
            one.tensors.append(part)
    return gathered


class _Pickler(pickle.Pickler):
    """Pickles all but large tensors, which it keeps in `tensors`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, value: Any) -> int | None:
        if type(value) is not torch.Tensor or value.layout is not torch.strided or value.device.type != "cpu":
            return None
        if value.requires_grad or value.nbytes < WORTH_IT:
            return None
        self.tensors.append(value.contiguous())
        return len(self.tensors) - 1

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, DataProto) or value.batch is None:
            return NotImplemented
        made: Callable[..., Any] = _batch
        return made, (dict(value.batch.items()), len(value), value.non_tensor_batch, value.meta_info)


class _Unpickler(pickle.Unpickler):
    def __init__(self, packed: Packed) -> None:
        super().__init__(io.BytesIO(packed.data))
        self._tensors = packed.tensors

    def persistent_load(self, number: Any) -> torch.Tensor:
        return self._tensors[number]


def _batch(columns: dict[str, Any], rows: int, others: dict[str, Any], meta_info: dict[str, Any]) -> DataProto:
    return DataProto(TensorDict(columns, batch_size=[rows]), others, meta_info)


def _shapes(packed: Packed) -> list[tuple[torch.Size, torch.dtype]]:
    return [(tensor.shape, tensor.dtype) for tensor in packed.tensors]


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of all its bytes, (bytes,): every backend can send them, whatever the dtype."""
    return tensor.reshape(-1).view(torch.uint8)
