# vextract:template - edit freely
"""QLoRA: the model's own weights are held in 4 bits, by bitsandbytes, and an adapter beside them is trained.

Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, 2023 (arXiv:2305.14314). The weights of a layer are
unpacked while it computes; embeddings, norms and the output matrix are not packed. Settings are bitsandbytes' own.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from ..errors import ConfigError
from ..output import install_command
from ..run.distributed import to_full
from ..shims.device import here, to_dtype
from . import lora
from .adapters import SECTION, wants_adapter
from .models import load_pretrained

QUANTIZATION = "local.quantization"


def check_quantization(config: Any) -> None:
    """Check what the config says about weights in 4 bits.

    Raises:
        ConfigError: nothing could be trained, or bitsandbytes is not installed.
    """
    if not config.local.quantization.load_in_4bit:
        return
    if not wants_adapter(config.actor_rollout_ref.model):
        raise ConfigError(
            f"{QUANTIZATION}.load_in_4bit=true, and there is no adapter: weights in 4 bits are not trained themselves",
            f"{SECTION}.lora_rank=16 trains an adapter; or leave {QUANTIZATION}.load_in_4bit out",
        )
    if find_spec("bitsandbytes") is None:
        raise ConfigError(
            f"{QUANTIZATION}.load_in_4bit=true, and bitsandbytes is not installed",
            f"make setup, or: {install_command('bitsandbytes')}",
        )


def quantized_reader(config: Any) -> Callable[..., Any] | None:
    """Return what reads the policy with its weights in 4 bits, like `from_pretrained`; None: they are as they are."""
    section, fsdp_config = config.local.quantization, config.actor_rollout_ref.actor.fsdp_config
    if not section.load_in_4bit:
        return None
    settings = {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": section.bnb_4bit_quant_type,
        "bnb_4bit_use_double_quant": section.bnb_4bit_use_double_quant,
        "bnb_4bit_compute_dtype": to_dtype(fsdp_config.dtype),
    }
    return partial(_read, settings, to_dtype(fsdp_config.model_dtype))


def unpacked_weights(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the model's weights by their names in Hugging Face format: unpacked, with the adapter merged into them.

    They are what the policy computes with. Every process that holds a part of the model must take them all.
    """
    if not getattr(module, "is_loaded_in_4bit", False):
        return lora.plain_weights(module)
    from bitsandbytes.nn import Linear4bit

    return lora.plain_weights(module, Linear4bit, _unpacked)


def _read(settings: dict[str, Any], dtype: torch.dtype, auto_class: Any, path: str, **arguments: Any) -> Any:
    """Read a model, on this process's device.

    Args:
        settings: of `BitsAndBytesConfig`.
        dtype: of the weights that are not packed.
        auto_class: the class of transformers that chooses the architecture.
        path, arguments: of `from_pretrained`.

    Raises:
        ConfigError: the model's layers are none that can be unpacked again.
    """
    from bitsandbytes.nn import Linear4bit
    from transformers import BitsAndBytesConfig
    from transformers.pytorch_utils import Conv1D

    placed: dict[str, Any] = {"device_map": {"": here()}, "torch_dtype": dtype}
    settings = {"quantization_config": BitsAndBytesConfig(**settings), **placed, **arguments}
    module, report = load_pretrained(auto_class, path, **settings)
    for layer in module.modules():
        if isinstance(layer, Linear4bit):
            if issubclass(getattr(layer, "source_cls", nn.Linear), Conv1D):
                raise ConfigError(
                    f"the model at {path} has weights that lie crosswise (GPT-2's Conv1D), which are not packed here",
                    f"leave {QUANTIZATION}.load_in_4bit out",
                )
            layer.support_avx512bf16_for_cpu = False  # a layout for inference alone: it would stay, and has no gradient
    return module, report


def _unpacked(layer: Any) -> nn.Module:
    """Return a layer whose weights are packed as a plain one, whole."""
    from bitsandbytes.functional import dequantize_4bit

    state = getattr(layer.weight, "quant_state", None) or layer.quant_state  # FSDP2's parameters have none
    plain = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")
    plain.weight = nn.Parameter(dequantize_4bit(to_full(layer.weight, None), state), requires_grad=False)
    if layer.bias is not None:
        plain.bias = nn.Parameter(to_full(layer.bias, None), requires_grad=False)
    return plain
