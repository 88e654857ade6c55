# vextract:template - edit freely
"""Load a model whose weights are the shares that several processes wrote, whole."""

from pathlib import Path
from typing import Any

import torch

from ..run.share_names import WEIGHTS


def load_shares(auto_class: Any, folder: Path, *, trust_remote_code: bool = False, **arguments: Any) -> Any:
    """Load a model by one of transformers' Auto classes.

    Args:
        auto_class: chooses the architecture.
        folder: a model's directory in a checkpoint.
        trust_remote_code: whether code that comes with the model may run.
        arguments: further arguments of its `from_pretrained`.

    Raises:
        ConfigError: a share is not there.
    """
    from transformers import AutoConfig, GenerationConfig

    from ..run.shards import read_whole  # torch's checkpoint code is slow to import

    config = arguments.pop("config", None) or AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    with torch.device("meta"):  # only its class is of interest
        kind = type(auto_class.from_config(config, trust_remote_code=trust_remote_code))
    if kind.can_generate() and (folder / "generation_config.json").is_file():
        arguments["generation_config"] = GenerationConfig.from_pretrained(folder)
    loaded = kind.from_pretrained(None, config=config, state_dict=read_whole(folder / WEIGHTS), **arguments)
    model: Any = loaded[0] if isinstance(loaded, tuple) else loaded
    # Shares have the module's own names. Transformers notes under which names a model was read, and writes it so;
    # without that note, as its architecture says: each expert by itself, for example.
    model.__dict__.pop("_weight_conversions", None)
    return loaded
