# vextract:template base/__package__/workers/model_files.py - edit freely
"""Check what a model's directory holds, before any of it is loaded; and load it."""

import json
from pathlib import Path
from typing import Any

from ..errors import ConfigError

KEY = "actor_rollout_ref.model.path"
ADAPTER_CONFIG = "adapter_config.json"  # of a directory in peft's format
WEIGHTS = ("*.safetensors", "*.bin")
# One of these is in every directory that has a tokenizer.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenization*.py", "vocab.*", "spiece.model", "*.tiktoken", "*.spm")


def check_model_directory(path: str) -> None:
    """Refuse a directory that is not a complete model in Hugging Face format. Names that are not local paths pass.

    Raises:
        ConfigError: it lacks a config, weights or a tokenizer, a file of it is damaged, or it is something else.
    """
    folder = Path(path).expanduser()
    if folder.is_file():
        raise ConfigError(f"{path} is a file, and {KEY} a directory", "convert it to Hugging Face format")
    if not folder.is_dir():
        return
    if not (folder / "config.json").is_file():
        raise _not_a_model(path, folder)
    try:
        json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}/config.json is not valid JSON: {error}", "fetch or save the model again") from error
    has_weights = any(file for pattern in WEIGHTS for file in folder.glob(pattern))
    _refuse_shares(folder)
    if not has_weights:
        raise ConfigError(f"no weights in {path}: it has no *.safetensors", "fetch or save the model again")
    for file in sorted(folder.glob("*.safetensors")):
        _check_whole(file)
    for index in sorted(folder.glob("*.index.json")):
        for name in sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())):
            if not (folder / name).is_file():
                raise ConfigError(f"{path} lacks {name}, which {index.name} lists", "fetch or save the model again")
    if not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        raise ConfigError(
            f"no tokenizer at {path}: there is no tokenizer.json, tokenizer.model or vocab file",
            "save the tokenizer that the model was trained with beside it: tokenizer.save_pretrained(...)",
        )


def load_pretrained(auto_class: Any, path: str | Path, *, trust_remote_code: bool = False, **arguments: Any) -> Any:
    """Load a model by one of transformers' Auto classes.

    Args:
        auto_class: chooses the architecture.
        path: a directory in Hugging Face format, a name on the hub, or a model's directory in a checkpoint.
        trust_remote_code: whether code that comes with the model may run.
        arguments: further arguments of its `from_pretrained`.

    Raises:
        ConfigError: its weights are the shares of processes, and cannot be read.
    """
    folder = Path(path).expanduser()
    _refuse_shares(folder)
    return auto_class.from_pretrained(path, trust_remote_code=trust_remote_code, **arguments)


def _refuse_shares(folder: Path) -> None:
    if (folder / "weights" / "tensors.json").is_file():
        raise ConfigError(
            f"the weights at {folder} are the shares of several processes", "vextract add sharded_checkpoints"
        )


def _not_a_model(path: str, folder: Path) -> ConfigError:
    """Say what a directory without a config.json is instead."""
    if (folder / ADAPTER_CONFIG).is_file():
        base = _read(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
        return ConfigError(
            f"no model at {path}: it holds a LoRA adapter",
            f"{KEY}={base} actor_rollout_ref.model.lora_adapter_path={path}, or merge it into its model first",
        )
    if any(folder.glob("*.gguf")):
        return ConfigError(
            f"no model at {path}: it holds a GGUF file, which cannot be trained",
            f"{KEY} is a directory in Hugging Face format, or a name on the hub",
        )
    inside = sorted(file.parent for file in folder.glob("*/config.json"))
    hint = f"{KEY} is a directory in Hugging Face format, or a name on the hub"
    return ConfigError(f"no model at {path}: it has no config.json", f"did you mean {inside[0]}?" if inside else hint)


def _check_whole(file: Path) -> None:
    """Compare the size of a file of weights with what its first bytes say."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        try:
            header = json.loads(opened.read(length)) if 0 < length <= size - 8 else None
        except ValueError:
            header = None
    ends = [entry["data_offsets"][1] for name, entry in (header or {}).items() if name != "__metadata__"]
    if header is None or 8 + length + max(ends, default=0) != size:
        raise ConfigError(f"{file} is damaged or was cut short", "fetch or save the model again")


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
