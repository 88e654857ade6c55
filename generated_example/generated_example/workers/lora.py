# vextract:template base/__package__/workers/lora.py - edit freely
"""The place of LoRA adapters, in a project that was created without them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import ConfigError
from ..run.distributed import Ranks
from .adapters import Start, wants_adapter


def check_adapter(model: Any) -> None:
    """Refuse a `model` section that asks for an adapter."""
    if wants_adapter(model):
        raise ConfigError(
            "actor_rollout_ref.model asks for a LoRA adapter, and this project was created without LoRA",
            "vextract upgrade --with lora; or leave lora_rank and lora_adapter_path out to train all weights",
        )


def add_adapter(module: nn.Module, model: Any, start: Start, ranks: Ranks) -> nn.Module:
    """Return the model as it is."""
    check_adapter(model)
    return module


def adapter_settings(module: nn.Module) -> Any:
    """Return the settings of the model's adapter: it has none."""
    return None


def without_adapter(module: nn.Module) -> AbstractContextManager[object]:
    """Let the model compute without its adapter within it: it has none."""
    return nullcontext()


def plain_weights(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the model's weights, under the names that they have in Hugging Face format."""
    yield from module.state_dict().items()


def adapter_weights(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the adapter's weights: there are none."""
    yield from ()


def save_adapter(module: nn.Module, directory: Path, ranks: Ranks) -> None:
    """Raise an error: this is never called."""
    raise NotImplementedError
