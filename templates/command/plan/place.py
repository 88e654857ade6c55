"""The device that a plan is for, which need not be here, and how much it holds."""

import copy
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..data.toy import ensure_toy_model
from ..errors import ConfigError
from ..settings.loading import settle_on

GIB = 2**30


def settled(config: Any) -> Any:
    """Return a copy of a config with its device, and what depends on it, filled in; another machine's GPU will do.

    Raises:
        ConfigError: it is not for training by rewards.
    """
    config = copy.deepcopy(config)
    if config.local.get("supervised"):
        raise ConfigError(
            "a plan is made of training by rewards, and this config is for demonstrations", "leave it out"
        )
    settle_on(config, config.local.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if config.local.get("max_logits_mb") == "auto":  # of that machine's device, and not of this one's
        from ..workers.logits import LOGITS_MB

        config.local.max_logits_mb = LOGITS_MB[config.local.device]
    return config


def capacity_of(config: Any, processes: int, memory_gb: float | None) -> int:
    """Return the bytes that there are for each process.

    Args:
        config: the whole config, with its device filled in.
        processes: how many there are; those on a CPU share its memory.
        memory_gb: GiB that each has; None: what this machine's device has.

    Raises:
        ConfigError: the device is not here, and nothing says how much it holds.
    """
    if memory_gb is not None:
        return int(memory_gb * GIB)
    if config.local.device == "cpu":
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // processes
    if not torch.cuda.is_available():
        raise ConfigError(
            "local.device is cuda, and torch finds no GPU whose memory could be looked up",
            "--memory 80 says how many GiB each GPU has",
        )
    return int(torch.cuda.get_device_properties(0).total_memory)


@contextmanager
def model_at_hand(config: Any) -> Iterator[None]:
    """Have `actor_rollout_ref.model.path` name a model within it: the toy model, if it names none."""
    model = config.actor_rollout_ref.model
    with tempfile.TemporaryDirectory() as folder:
        if model.path is None:
            model.path = str(ensure_toy_model(Path(folder) / "toy", task=config.data.env.task))
        yield
