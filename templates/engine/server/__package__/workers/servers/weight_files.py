# vextract:template - edit freely
"""Weights as files in shared memory, where a server on this machine reads them."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from ...errors import ConfigError

SHARED_MEMORY = Path("/dev/shm")
MEGABYTE = 2**20


def make_directory(configured: str | None, fallback: Path, needed: int) -> Path:
    """Make a directory for weights: in the configured place, or shared memory if so much fits, or else in `fallback`.

    Args:
        needed: bytes.

    Raises:
        ConfigError: the configured place cannot be written to, or has no such space.
    """
    places = [Path(configured)] if configured else [SHARED_MEMORY, fallback]
    for place in places:
        if configured or place is fallback:
            place.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and os.access(place, os.W_OK) and shutil.disk_usage(place).free > needed:
            return Path(tempfile.mkdtemp(prefix="weights-", dir=place))
    raise ConfigError(
        f"no space to hand weights to the server: {needed / MEGABYTE:.0f} MB are needed in {places[-1]}",
        "set local.server.weights_directory to a directory that this process and the server share",
    )


def with_output_matrix(
    weights: Iterable[tuple[str, torch.Tensor]], module: Any, wanted: bool
) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the weights of a model whose output matrix is its input embedding, with that matrix or without.

    Args:
        module: the model; if its embeddings are not tied, the weights pass as they are.
        wanted: whether the server needs the matrix under both names. On a CPU vLLM packs it, and would go on with the
            old one.
    """
    tied = bool(getattr(module.config, "tie_word_embeddings", False))
    if hasattr(module, "get_base_model"):  # an adapter is beside it, whose weights come merged
        module = module.get_base_model()
    embedding = module.get_input_embeddings().weight if tied else None
    name_of_input = next((name for name, weight in module.named_parameters() if weight is embedding), None)
    for name, weight in weights:
        if tied and name == "lm_head.weight":
            continue
        yield name, weight
        # With adapters the module's own names have more in front.
        if wanted and name_of_input is not None and f".{name_of_input}".endswith(f".{name}"):
            yield "lm_head.weight", weight


def buckets(
    weights: Iterable[tuple[str, torch.Tensor]], size: int, dtype: torch.dtype
) -> Iterator[dict[str, torch.Tensor]]:
    """Group weights to about `size` bytes, each ready for a safetensors file, floating-point ones as `dtype`."""
    bucket: dict[str, torch.Tensor] = {}
    filled = 0
    seen: set[int] = set()
    for name, weight in weights:
        tensor = weight.detach().to("cpu", dtype if weight.is_floating_point() else weight.dtype).contiguous()
        tensor = tensor.clone() if tensor.data_ptr() in seen else tensor  # a file holds no tensor twice
        if bucket and filled + tensor.nbytes > size:
            yield bucket
            bucket, filled, seen = {}, 0, set()
        bucket[name] = tensor
        filled += tensor.nbytes
        seen.add(tensor.data_ptr())
    if bucket:
        yield bucket


def bytes_of(module: torch.nn.Module, dtype: torch.dtype) -> int:
    """Return the size of all weights in this dtype, with the output matrix counted on its own."""
    size = sum(parameter.numel() for parameter in module.parameters())
    embedding = module.get_output_embeddings()  # type: ignore[operator]
    size += embedding.weight.numel() if embedding is not None else 0
    return size * torch.empty((), dtype=dtype).itemsize
