# vextract:template base/__package__/features.py.jinja - edit freely
"""The optional parts of the project: what the rest uses of each, and what stands for those that it was made without.

`vextract add NAME` adds one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .errors import ConfigError
from .run.distributed import Ranks
from .workers.adapters import Start, wants_adapter

__all__ = [
    "adapter_settings",
    "adapter_weights",
    "adapter_writer",
    "add_adapter",
    "check_adapter",
    "check_quantization",
    "plain_weights",
    "quantized_reader",
    "without_adapter",
]


# lora: adapters


def check_adapter(model: Any) -> None:
    """Refuse a `model` section that asks for an adapter."""
    if wants_adapter(model):
        raise ConfigError(
            "actor_rollout_ref.model asks for a LoRA adapter, and this project was created without LoRA",
            "vextract add lora; or leave lora_rank and lora_adapter_path out to train all weights",
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


def adapter_writer(module: nn.Module, ranks: Ranks) -> Callable[[Path], None]:
    """Raise an error: this is never called."""
    raise NotImplementedError


# qlora: weights in 4 bits


def check_quantization(config: Any) -> None:
    """Do nothing: a setting that asks for it is one that nothing here reads."""


def quantized_reader(config: Any) -> Callable[..., Any] | None:
    """Return None: weights are as they are."""
    return None
