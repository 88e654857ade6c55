# vextract:template - edit freely
"""From settings to a server's command line."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from omegaconf import OmegaConf

from ...errors import ConfigError
from ...vendored.utils.device import get_device_name

GPU = re.compile(r"(?:cuda:)?(\d+)")
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


def own_gpus(config: Any) -> list[int] | None:
    """Return the numbers of the GPUs that `local.server.devices` names, as torch counts them; None: it names none.

    Raises:
        ConfigError: there is no such GPU, one is named twice, or the server is not the trainer's to place.
    """
    names, key = config.local.server.devices, "local.server.devices"
    if names is None:
        return None
    if config.local.server.url:
        raise ConfigError(f"{key} is for a server that the trainer starts, and local.server.url names one", "drop one")
    there, numbers = torch.cuda.device_count(), []
    for name in names:
        found = GPU.fullmatch(str(name))
        if found is None:
            raise ConfigError(f"{key} has {name!r}, which is no GPU", f"write {key}=[cuda:4,cuda:5]")
        numbers.append(int(found[1]))
        if numbers[-1] >= there:
            raise ConfigError(f"{key} has {name}, and torch finds {there} GPUs", "they count from cuda:0")
    if not numbers or len({*numbers}) < len(numbers):
        raise ConfigError(f"{key} is {[*names]}", f"name each GPU once, or leave {key} out for the trainer's own")
    return numbers


def seen_by(gpus: Iterable[int]) -> str:
    """Return what CUDA_VISIBLE_DEVICES is for a process that is to see these of the GPUs that this one sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in visible.split(",")] if visible else []
    return ",".join(names[gpu] if names else str(gpu) for gpu in gpus)


def copies_on(gpus: int, config: Any, option: str) -> int | None:
    """Return how many copies of the model a server has, each on as many GPUs as hold one together; None: one.

    Args:
        gpus: how many the server has; 0: it computes on the CPU.
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
            f"{TOGETHER} is {together}, which does not divide the {gpus} GPUs that the server has",
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
