# vextract:template - edit freely
"""What a checkpoint keeps of a model: its weights and its optimizer's state, gathered by rank 0."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..run.checkpoint_files import save_state
from ..run.distributed import Ranks
from ..switches import LORA
from .lora import adapter_writer
from .optimizer_state import FILE
from .trained_model import TrainedModel

# Writes a part into a model's directory, on rank 0.
Write = Callable[[Path], None]


def parts_of(model: TrainedModel, ranks: Ranks) -> Iterator[Write]:
    """Return what writes a model: its weights, then its optimizer's state, each as it is when it is asked for.

    Args:
        model: what to write.
        ranks: this process among its peers; every one must take all parts. Rank 0 holds one whole part at a time.
    """
    yield _weights(model, ranks)
    state = model.optimizer_state(ranks)
    yield lambda directory: save_state(state, directory / FILE)


def _weights(model: TrainedModel, ranks: Ranks) -> Write:
    if LORA and model.lora is not None:
        save = adapter_writer(model.module, ranks)
    else:
        weights = {name: weight for name, weight in model.full_weights() if ranks.rank == 0}
        save = partial(save_pretrained, model, weights)

    def write(directory: Path) -> None:
        save(directory)
        model.tokenizer.save_pretrained(directory)

    return write


def save_pretrained(model: TrainedModel, weights: dict[str, torch.Tensor], directory: Path) -> None:
    """Write weights as a model in Hugging Face format."""
    save: Any = model.module.save_pretrained
    save(directory, state_dict=weights)
