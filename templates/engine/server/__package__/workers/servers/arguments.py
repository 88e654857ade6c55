# vextract:template - edit freely
"""From settings to a server's command line."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from ...utils.device import get_device_name


def interpreter(config: Any) -> str:
    """Return the Python that runs the server: it may be installed elsewhere than the trainer."""
    return str(config.local.server.python or sys.executable)


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Write options by name: true is `--name`, false and null are left out, a dictionary is JSON, a list values."""
    words: list[str] = []
    for name, value in settings.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, dict):
            words.append(json.dumps(value))
        elif isinstance(value, list):
            words.extend(map(str, value))
        elif value is not True:
            words.append(str(value))
    return words


def extra_arguments(config: Any, engine: str) -> list[str]:
    """Return what the user adds: rollout.engine_kwargs of this engine, and local.server.arguments as they are."""
    kwargs: Any = OmegaConf.to_container(config.actor_rollout_ref.rollout.engine_kwargs, resolve=True)
    return [*flags(kwargs.get(engine) or {}), *map(str, config.local.server.arguments)]


def model_overrides(config: Any) -> dict[str, Any]:
    """Return what model.override_config changes in the model's own config, without what is for transformers alone."""
    overrides: Any = OmegaConf.to_container(config.actor_rollout_ref.model.override_config, resolve=True)
    return {name: value for name, value in overrides.items() if name != "attn_implementation"}


def on_gpu() -> bool:
    """Tell whether the trainer, and with it the server, has a GPU."""
    return bool(get_device_name() != "cpu")
