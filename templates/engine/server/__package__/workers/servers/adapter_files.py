# vextract:template - edit freely
"""The adapter that is trained, as a directory in peft's format for an engine that holds the model beneath it."""

import itertools
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ...errors import ConfigError
from ..rollout_interface import RolloutError
from ..trained_model import TrainedModel

MERGE = "actor_rollout_ref.model.lora.merge=true merges the adapter into the weights that are handed over"
# The ranks that vLLM has room for (MaxLoRARanks in vllm/config/lora.py); an adapter takes the next one.
ROOMS = (8, 16, 32, 64, 128, 256, 320, 512)


def hands_over_adapter(config: Any, policy: TrainedModel) -> bool:
    """Tell whether the engine takes the adapter itself: it has the weights below it from disk, as they are trained on.

    Weights in 4 bits are not those on disk: then they go over whole, with the adapter merged into them.
    """
    model = config.actor_rollout_ref.model
    wants_adapter = model.lora_rank > 0 or model.lora_adapter_path
    return bool(wants_adapter) and not (model.lora.merge or getattr(policy.module, "is_loaded_in_4bit", False))


def lora_options(settings: Any) -> dict[str, Any]:
    """Return what vLLM is started with to hold one adapter, by the names of its arguments.

    Args:
        settings: of the adapter, a `peft.LoraConfig`.

    Raises:
        ConfigError: vLLM has no room for so large a rank, or computes no adapter of this kind.
    """
    rank = max(settings.r, *(settings.rank_pattern or {"": 0}).values())
    room = next((room for room in ROOMS if rank <= room), None)
    if room is None:
        raise ConfigError(f"the adapter has rank {rank}, and vLLM has room for at most {ROOMS[-1]}", MERGE)
    for name in ("use_dora", "modules_to_save", "target_parameters"):
        if getattr(settings, name, None):
            raise ConfigError(f"the adapter has {name}, which vLLM does not compute beside a model", MERGE)
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": room}


class AdapterFiles:
    """Directories for one adapter after the other; the one before is gone when `keep_last` is called.

    Args:
        directory: where they are made. It is the owner's to remove.
        settings: of the adapter, a `peft.LoraConfig`.
        dtype: of its weights, as the engine holds them.
    """

    def __init__(self, directory: Path, settings: Any, dtype: torch.dtype) -> None:
        self.directory = directory
        self.settings = settings
        self.dtype = dtype
        self._numbers = itertools.count(1)
        self._written: list[Path] = []

    def write(self, weights: Iterable[tuple[str, torch.Tensor]]) -> tuple[Path, int]:
        """Write an adapter; its directory, and its number among all that were written."""
        number = next(self._numbers)
        path = self.directory / f"adapter-{number}"
        path.mkdir()
        self._written.append(path)
        tensors = {name: weight.to(self.dtype).contiguous() for name, weight in weights}
        save_file(tensors, path / "adapter_model.safetensors", metadata={"format": "pt"})
        self.settings.save_pretrained(str(path))
        return path, number

    def keep_last(self) -> None:
        """Remove all but the last one, which the engine may read once more."""
        for path in self._written[:-1]:
            shutil.rmtree(path, ignore_errors=True)
        del self._written[:-1]


def refused(error: object) -> RolloutError:
    """Return the error of an engine that did not take the adapter."""
    return RolloutError(f"vLLM did not take the adapter: {' '.join(str(error).split())[:600]}", MERGE)
