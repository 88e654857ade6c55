# vextract:template - edit freely
"""What a checkpoint keeps of a model where each process writes its own share, or training goes on meanwhile."""

import copy
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from ..run.checkpoint_files import save_state
from ..run.distributed import Ranks, to_full
from ..run.share_names import OPTIMIZER, WEIGHTS
from ..switches import LORA
from .host_memory import wait
from .lora import adapter_writer
from .own_shares import own_tensors
from .trained_model import FILE, TrainedModel

# Writes a part into a model's directory. Every process must call it. It returns the SHA-256 of the files that this
# process has brought to the disk, by name; those of others rank 0 computes.
Write = Callable[[Path, Ranks], dict[str, str]]


def parts_of(model: TrainedModel, ranks: Ranks, *, sharded: bool, copies: bool) -> Iterator[Write]:
    """Return what writes a model: its weights, then its optimizer's state, each as it is when it is asked for.

    Args:
        model: what to write.
        ranks: this process among its peers; every one must take all parts.
        sharded: each process writes its own share; otherwise rank 0 writes all, and holds one whole part at a time. An
            adapter and its optimizer's state are always whole.
        copies: training may go on before the part is written.
    """
    if sharded and (not LORA or model.lora is None):
        yield _own_weights(model, ranks, copies)
        yield _own_optimizer_state(model, copies)
    else:
        yield _whole_weights(model, ranks, copies)
        yield _whole_optimizer_state(model, ranks, copies)


def _whole_weights(model: TrainedModel, ranks: Ranks, copies: bool) -> Write:
    if LORA and model.lora is not None:
        save = adapter_writer(model.module, ranks)
    else:
        if copies and ranks.rank == 0:
            weights = _staged(model, WEIGHTS, model.full_weights(device=None))
        else:
            weights = {name: weight for name, weight in model.full_weights() if ranks.rank == 0}
        save = partial(model.module.save_pretrained, state_dict=weights)
    tokenizer = _files_of(model.tokenizer.save_pretrained, ranks)

    def write(directory: Path) -> None:
        save(directory)
        _write_files(tokenizer, directory)

    return _by_driver(write)


def _whole_optimizer_state(model: TrainedModel, ranks: Ranks, copies: bool) -> Write:
    state = _copied_state(model, ranks) if copies else model.optimizer_state(ranks)
    return _by_driver(lambda directory: save_state(state, directory / FILE))


def _own_weights(model: TrainedModel, ranks: Ranks, copies: bool) -> Write:
    # Whoever loads the model finds all but the weights at their usual places.
    settings = partial(model.module.save_pretrained, state_dict={})
    files = _files_of(settings, ranks) | _files_of(model.tokenizer.save_pretrained, ranks)
    tensors = own_tensors(model.module)
    return _by_all(
        WEIGHTS, _staged(model, WEIGHTS, tensors.items()) if copies else tensors, partial(_write_files, files)
    )


def _own_optimizer_state(model: TrainedModel, copies: bool) -> Write:
    tensors, rest = _own_state(model.optimizer, model.scheduler)
    if copies:
        tensors, rest = _staged(model, OPTIMIZER, tensors.items()), copy.deepcopy(rest)
    return _by_all(OPTIMIZER, tensors, lambda directory: save_state(rest, directory / FILE))


def _own_state(optimizer: torch.optim.Optimizer, scheduler: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return this process's shares of the large tensors, by parameter and name ("3.exp_avg"), and all else."""
    state, tensors, rest = optimizer.state_dict(), dict[str, torch.Tensor](), dict[int, dict[str, Any]]()
    for index, values in state["state"].items():
        large = {name: value for name, value in values.items() if isinstance(value, torch.Tensor) and value.dim()}
        tensors.update({f"{index}.{name}": value for name, value in large.items()})
        rest[index] = {name: value for name, value in values.items() if name not in large}
    return tensors, {"optimizer": {**state, "state": rest}, "scheduler": scheduler.state_dict()}


def _staged(model: TrainedModel, name: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Copy tensors, or this process's shares of them, to CPU memory: what a GPU has, to the same place each time.

    Args:
        model: what they belong to.
        name: of what they are.
        tensors: by name, one after the other.
    """
    found = {key: model.copies.of(f"{name} {key}", value) for key, value in tensors}
    wait()
    return found


def _copied_state(model: TrainedModel, ranks: Ranks) -> dict[str, Any]:
    """Return the state of optimizer and scheduler as `optimizer_state` does, as copies."""
    state = model.optimizer.state_dict()
    states: dict[int, dict[str, Any]] = {}
    for parameter, values in state["state"].items():
        states[parameter] = {}
        for name, value in values.items():
            full = to_full(value.to(model.device) if isinstance(value, DTensor) else value, None)
            if isinstance(full, torch.Tensor):
                full = model.copies.of(f"{parameter}.{name}", full) if ranks.rank == 0 else None
            states[parameter][name] = full
    wait()
    return {"optimizer": {**state, "state": states}, "scheduler": model.scheduler.state_dict()}


def _by_driver(write: Callable[[Path], object]) -> Write:
    """Return a part that rank 0 writes."""

    def on_every_process(directory: Path, writers: Ranks) -> dict[str, str]:
        writers.on_driver(lambda: bool(write(directory)))
        return {}

    return on_every_process


def _by_all(name: str, tensors: dict[str, torch.Tensor], write_rest: Callable[[Path], object]) -> Write:
    """Return a part whose tensors each process writes its share of, and rank 0 the rest."""

    def on_every_process(directory: Path, writers: Ranks) -> dict[str, str]:
        from ..run.shards import write_shards  # imports much that a start does not need

        digests = write_shards(tensors, directory / name, writers)
        writers.on_driver(lambda: bool(write_rest(directory)))
        return {f"{name}/{file}": digest for file, digest in digests.items()}

    return on_every_process


def _files_of(save: Callable[[Path], object], ranks: Ranks) -> dict[str, bytes]:
    """Return the files that something saves itself as, by name; none on other processes than rank 0.

    They are few and small. What saves them may not be used by two threads at once.
    """
    if ranks.rank != 0:
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        save(Path(scratch))
        files = [path for path in sorted(Path(scratch).rglob("*")) if path.is_file()]
        return {path.relative_to(scratch).as_posix(): path.read_bytes() for path in files}


def _write_files(files: dict[str, bytes], directory: Path) -> None:
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
