# vextract:template base/__package__/workers/models.py - edit freely
"""Tokenizer and models of the run: read from disk, checked, and placed on devices or shared out by FSDP2."""

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from omegaconf import OmegaConf
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy

from ..errors import ConfigError
from ..output import install_command
from ..run.distributed import Ranks
from ..shims.device import get_device_name, here, to_dtype
from ..vendored.utils.fsdp_utils import apply_fsdp2, fsdp2_load_full_state_dict
from .rollout_interface import listed

KEY = "actor_rollout_ref.model.path"
ATTENTION = "actor_rollout_ref.model.override_config.attn_implementation"
ADAPTER_CONFIG = "adapter_config.json"  # of a directory in peft's format
WEIGHTS = ("*.safetensors", "*.bin")
# One of these is in every directory that has a tokenizer.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenization*.py", "vocab.*", "spiece.model", "*.tiktoken", "*.spm")


def load_tokenizer(model: Any, ranks: Ranks) -> Any:
    """Return the tokenizer of `actor_rollout_ref.model`, with a padding token and the configured chat template."""

    def read_tokenizer() -> Any:
        check_model_directory(model.path)
        try:
            return transformers.AutoTokenizer.from_pretrained(model.path, trust_remote_code=model.trust_remote_code)
        except Exception as error:  # of many classes, depending on the value that does not fit
            raise _unreadable("no tokenizer", model.path, error) from error

    # Code that comes with a model cannot be sent to other processes: there each reads for itself.
    return usable_tokenizer(read_tokenizer() if model.trust_remote_code else ranks.on_driver(read_tokenizer), model)


def usable_tokenizer(tokenizer: Any, model: Any) -> Any:
    """Return the tokenizer with a padding token and the configured chat template.

    Raises:
        ConfigError: it has no token that ends a response.
    """
    if tokenizer.eos_token_id is None:
        raise ConfigError(
            f"the tokenizer at {model.path} has no end-of-sequence token, so that no response would end",
            "set eos_token in its tokenizer_config.json",
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if model.custom_chat_template is not None:
        tokenizer.chat_template = model.custom_chat_template
    return tokenizer


def load_model(
    path: str, model: Any, fsdp_config: Any, tokenizer: Any, auto_class: Any, ranks: Ranks, **settings: Any
) -> nn.Module:
    """Load a model in Hugging Face format: with weights, on the CPU, on rank 0; without ("meta") on other processes.

    Args:
        path: a directory, or a name on the hub; only rank 0 reads it.
        model: the `model` section it belongs to.
        fsdp_config: its `model_dtype` is the dtype of the weights.
        tokenizer: its special tokens become the model's.
        auto_class: the class of transformers that chooses the architecture.
        ranks: this process among its peers; every one must call this.
        settings: further settings of the model's config; with `num_labels` weights of a new head may be missing.

    Raises:
        ConfigError: there is no such model, it cannot be loaded as configured, or its tokenizer is another model's.
    """
    transformers.utils.logging.disable_progress_bar()
    if model.external_lib:
        importlib.import_module(model.external_lib)
    override: Any = OmegaConf.to_container(model.override_config, resolve=True)
    attention = override.pop("attn_implementation", None)
    arguments = {"trust_remote_code": model.trust_remote_code}

    def read_config() -> Any:
        try:
            return transformers.AutoConfig.from_pretrained(path, **arguments)
        except Exception as error:  # of many classes, depending on the value that does not fit
            raise _unreadable("no model", path, error) from error

    def read_model() -> nn.Module:
        try:
            if ranks.rank != 0:
                with torch.device("meta"):
                    return auto_class.from_config(model_config, **arguments)
            read: Any = auto_class.from_pretrained
            loaded, report = read(path, config=model_config, output_loading_info=True, **arguments)
            if (missing := sorted(report["missing_keys"])) and "num_labels" not in settings:
                raise ConfigError(
                    f"the model at {path} lacks {len(missing)} weights, such as {missing[0]}",
                    "check that it is complete and of the architecture that its config.json names",
                )
            return loaded
        except ConfigError:
            raise
        except Exception as error:
            raise _unreadable("cannot load the model", path, error, attention) from error

    model_config = read_config() if model.trust_remote_code else ranks.on_driver(read_config)
    _check_vocabulary(path, getattr(model_config.get_text_config(), "vocab_size", None), tokenizer)
    _override(model_config, {**_tokens(tokenizer, model_config), **settings, **override})
    if attention is None and getattr(model_config.get_text_config(), "attn_logit_softcapping", None):
        attention = "eager"  # sdpa, which transformers would choose, leaves the cap out
    arguments["attn_implementation"] = attention
    module = ranks.together(read_model)
    _check_vocabulary(path, module.get_input_embeddings().weight.shape[0], tokenizer)  # type: ignore[operator]
    if generation_config := ranks.on_driver(lambda: getattr(module, "generation_config", None)):
        module.generation_config = _savable(generation_config)
    module.to(to_dtype(fsdp_config.model_dtype))
    return _prepared(module, model)


def check_model_directory(path: str) -> None:
    """Refuse a directory that is not a complete model in Hugging Face format. Names that are not local paths pass.

    Raises:
        ConfigError: it lacks a config, weights or a tokenizer, or it is something else.
    """
    folder = Path(path).expanduser()
    if folder.is_file():
        raise ConfigError(f"{path} is a file, and {KEY} a directory", "convert it to Hugging Face format")
    if not folder.is_dir():
        return
    if not (folder / "config.json").is_file():
        inside = next(iter(sorted(file.parent for file in folder.glob("*/config.json"))), None)
        hint = f"did you mean {inside}?" if inside else f"{KEY} is a directory in Hugging Face format, or a hub's name"
        if (folder / ADAPTER_CONFIG).is_file():
            base = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8")).get("base_model_name_or_path")
            hint = f"it holds a LoRA adapter: {KEY}={base} actor_rollout_ref.model.lora_adapter_path={path}"
        raise ConfigError(f"no model at {path}: it has no config.json", hint)
    has_weights = any(file for pattern in WEIGHTS for file in folder.glob(pattern))
    if not has_weights:
        hint = "fetch or save it again; if it is the shares of several processes: vextract add sharded_checkpoints"
        raise ConfigError(f"no weights in {path}: it has no *.safetensors", hint)
    if not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        hint = "save the tokenizer that the model was trained with beside it: tokenizer.save_pretrained(...)"
        raise ConfigError(f"no tokenizer at {path}: there is no {', '.join(TOKENIZERS)}", hint)


def check_positions(module: Any, path: str, data: Any) -> None:
    """Refuse a model with a table of positions that has fewer than a sequence may have tokens.

    Args:
        module: the model.
        path: where it was read.
        data: the config's section of that name.
    """
    longest = data.get("max_length") or data.max_prompt_length + data.max_response_length
    places = getattr(module.config.get_text_config(), "max_position_embeddings", None) or longest
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    tables = [table for table in tables if table is not module.get_input_embeddings()]
    # OPT's table has two more. Positions that are computed have no end.
    if places < longest and any(places <= table.num_embeddings <= places + 2 for table in tables):
        raise ConfigError(
            f"the model at {path} has positions for {places} tokens, and a sequence may have {longest}",
            "lower data.max_length, or data.max_prompt_length and data.max_response_length",
        )


def _prepared(module: nn.Module, model: Any) -> nn.Module:
    """Refuse attention that leaves out a cap on its logits without a word, as sdpa does; prepare what is left."""
    text_config: Any = module.config.get_text_config()  # type: ignore[operator, union-attr]
    cap = getattr(text_config, "attn_logit_softcapping", None)
    if cap and text_config._attn_implementation == "sdpa":
        raise ConfigError(
            f"the model caps the logits of its attention (attn_logit_softcapping={cap:g}), which sdpa leaves out",
            f"{ATTENTION}=eager, or flash_attention_2 on a GPU (a critic has critic.model)",
        )
    if model.enable_gradient_checkpointing:
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})  # type: ignore[operator]
    return module


def _tokens(tokenizer: Any, model_config: Any) -> dict[str, Any]:
    """Return the special tokens of a tokenizer, under the names that a model's config has them by.

    The other tokens that the config itself has responses end with are kept: those of Llama 3 stand nowhere else.
    """
    found = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    ends = list(dict.fromkeys([found["eos_token_id"], *listed(getattr(model_config, "eos_token_id", None))]))
    return {**found, "eos_token_id": ends[0] if len(ends) == 1 else ends}


def _override(model_config: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and getattr(model_config, name, None) is not None:
            _override(getattr(model_config, name), value)
        else:
            setattr(model_config, name, value)


def _savable(generation_config: Any) -> Any:
    """Return a generation config that transformers saves: one with values for sampling has to say `do_sample`."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            generation_config.save_pretrained(directory)
    except ValueError:
        generation_config.do_sample = True
    return generation_config


def _check_vocabulary(path: str, rows: int | None, tokenizer: Any) -> None:
    if rows is not None and len(tokenizer) > rows:
        raise ConfigError(
            f"the tokenizer has {len(tokenizer)} tokens, and the model at {path} embeds {rows}",
            "use the tokenizer that the model was trained with, or resize the model's embeddings and save it",
        )


def _unreadable(what: str, path: str, error: Exception, attention: str | None = None) -> ConfigError:
    """Say what is wrong with a model that transformers cannot read; of what is no name on the hub it says little."""
    text, hint = " ".join(str(error).split()), f"check {KEY}"
    if not isinstance(error, (OSError, ValueError, RuntimeError, ImportError)):  # whose text may say too little
        text = f"{type(error).__name__}: {text}"
    if attention not in (None, "sdpa", "eager") and (isinstance(error, ImportError) or str(attention) in text):
        text = f"attention by {attention} is not available here: {text}"
        hint = f"install what it names ({install_command('flash-attn')}), or {ATTENTION}=sdpa"
    elif 'attn_implementation="eager"' in text:
        hint = f"{ATTENTION}=eager"
    elif Path(path).is_dir():
        hint = f"{hint}; fetch or save the model again"
    elif path.startswith(("/", ".", "~")) or path.count("/") > 1:
        text = "there is no such directory"
    else:
        path = f"{path}, which is taken for a name on the hub"
        hint = f"{hint} and the network; a directory of this machine begins with / or ./"
    return ConfigError(f"{what} at {path}: {text}", hint)


def place_model(module: nn.Module, fsdp_config: Any, ranks: Ranks) -> nn.Module:
    """Put a model on this process's device; with several processes, share it out between them by FSDP2.

    Args:
        module: with its weights on rank 0, whose they become everywhere; on the other processes it needs none.
        fsdp_config: how to share it out.
        ranks: this process among its peers.
    """
    if ranks.world_size == 1:
        return module.to(here())
    row = int(fsdp_config.fsdp_size)  # of processes that share a copy (HSDP)
    shape = (ranks.world_size // row, row) if 0 < row < ranks.world_size else (ranks.world_size,)
    mesh = init_device_mesh(get_device_name(), shape, mesh_dim_names=("ddp", "fsdp")[-len(shape) :])
    layers = fsdp_config.wrap_policy.transformer_layer_cls_to_wrap  # are sharded one by one
    layers = [layers] if isinstance(layers, str) else layers or getattr(module, "_no_split_modules", None)
    full_state = module.state_dict() if ranks.rank == 0 else {}
    apply_fsdp2(
        module,
        {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(to_dtype(fsdp_config.dtype), torch.float32, cast_forward_inputs=True),
            "offload_policy": None,
            "reshard_after_forward": fsdp_config.reshard_after_forward,
        },
        {"wrap_policy": {"transformer_layer_cls_to_wrap": sorted(layers or [type(module).__name__])}},
    )
    fsdp2_load_full_state_dict(module, full_state, mesh)
    return module
