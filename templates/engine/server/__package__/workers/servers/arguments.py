# vextract:template - edit freely
"""From settings to a server's command line."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from ...errors import ConfigError
from ...vendored.utils.device import get_device_name

TOGETHER = "actor_rollout_ref.rollout.tensor_model_parallel_size"


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


def copies_on(gpus: int, config: Any, option: str) -> int | None:
    """Return how many copies of the model a server has, each on as many GPUs as hold one together; None: one.

    Args:
        gpus: those of the trainer's processes on the server's machine; 0: there are none.
        config: the whole config.
        option: of the command line, with which the owner may say so instead.

    Raises:
        ConfigError: some of the GPUs would have nothing to do.
    """
    if gpus == 0 or any(str(word).partition("=")[0] == option for word in config.local.server.arguments):
        return None
    together = config.actor_rollout_ref.rollout.tensor_model_parallel_size
    if gpus % together:
        raise ConfigError(
            f"{TOGETHER} is {together}, which does not divide the {gpus} GPUs of the trainer's processes",
            f"set it to a divisor of {gpus}, or say how many copies there are: local.server.arguments=[{option},1]",
        )
    return int(gpus // together)


def model_overrides(config: Any) -> dict[str, Any]:
    """Return what model.override_config changes in the model's own config, without what is for transformers alone."""
    overrides: Any = OmegaConf.to_container(config.actor_rollout_ref.model.override_config, resolve=True)
    return {name: value for name, value in overrides.items() if name != "attn_implementation"}


def on_gpu() -> bool:
    """Tell whether the trainer, and with it the server, has a GPU."""
    return bool(get_device_name() != "cpu")
