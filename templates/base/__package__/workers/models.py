# vextract:template - edit freely; upgrades merge your edits
"""Tokenizer and models of the run, read from disk."""

import importlib
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import nn

from ..shims.precision import to_dtype
from ..training.config_loading import ConfigError
from ..training.distributed import Ranks


def load_tokenizer(model: Any, ranks: Ranks) -> Any:
    """The tokenizer of `actor_rollout_ref.model`, with a padding token and the configured chat template."""
    from transformers import AutoTokenizer

    def read_tokenizer() -> Any:
        try:
            return AutoTokenizer.from_pretrained(model.path, trust_remote_code=model.trust_remote_code)
        except (OSError, ValueError) as error:
            raise ConfigError(f"no tokenizer at {model.path}: {error}", "check actor_rollout_ref.model.path") from error

    # Code that comes with a model cannot be sent to other processes: there each reads for itself.
    tokenizer = read_tokenizer() if model.trust_remote_code else ranks.on_driver(read_tokenizer)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if model.custom_chat_template is not None:
        tokenizer.chat_template = model.custom_chat_template
    return tokenizer


def load_model(
    path: str, model: Any, fsdp_config: Any, tokenizer: Any, auto_class: Any, ranks: Ranks, **settings: Any
) -> nn.Module:
    """A model in Hugging Face format: with its weights, on the CPU, on rank 0; without any ("meta") on other processes.

    Args:
        path: a directory, or a name on the hub; only rank 0 reads it.
        model: the `model` section it belongs to.
        fsdp_config: its `model_dtype` is the dtype of the weights.
        tokenizer: its special tokens become the model's.
        auto_class: the class of transformers that chooses the architecture.
        ranks: this process among its peers; every one must call this.
        settings: further settings of the model's config.
    """
    from transformers import AutoConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    if model.external_lib:
        importlib.import_module(model.external_lib)
    override: Any = OmegaConf.to_container(model.override_config, resolve=True)
    arguments = {"trust_remote_code": model.trust_remote_code}
    if attention := override.pop("attn_implementation", None):
        arguments["attn_implementation"] = attention


    def read_config() -> Any:
        try:
            return AutoConfig.from_pretrained(path, **arguments)
        except (OSError, ValueError) as error:
            raise ConfigError(f"no model at {path}: {error}", "check actor_rollout_ref.model.path") from error

    model_config = read_config() if model.trust_remote_code else ranks.on_driver(read_config)
    tokens = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _override(model_config, {**tokens, **settings, **override})
    if ranks.rank == 0:
        module: nn.Module = auto_class.from_pretrained(path, config=model_config, **arguments)
    else:
        with torch.device("meta"):
            module = auto_class.from_config(model_config, **arguments)
    if generation_config := ranks.on_driver(lambda: getattr(module, "generation_config", None)):
        module.generation_config = generation_config
    module.to(to_dtype(fsdp_config.model_dtype))
    if model.enable_gradient_checkpointing:
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})  # type: ignore[operator]
    return module


def _override(model_config: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and getattr(model_config, name, None) is not None:
            _override(getattr(model_config, name), value)
        else:
            setattr(model_config, name, value)
