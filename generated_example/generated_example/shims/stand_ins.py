# vextract:template shims/stand_ins.py - edit freely
"""Stand-ins for upstream code that this project does in another way, or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from torch import nn

# A `datasets.Dataset`, and a function that scores, in annotations.
Rows = Any
RawRewardFn = Callable[..., Any]


class AlgoConfig(SimpleNamespace):
    """Settings of an advantage estimator: attributes with a mapping's `get`, for calling one by hand."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the setting `key`, or `default` where it is not set."""
        return getattr(self, key, default)


class HFModelConfig(AlgoConfig):
    """Settings of a model."""


class BaseRollout(ABC):
    """The base class of a rollout whose weights live in this process."""

    @abstractmethod
    def generate_sequences(self, prompts: Any) -> Any:
        """Write a response to each prompt; see `HFRollout.generate_sequences` for the keys and shapes."""


def load_dataset(kind: str, data_files: str) -> Any:
    """Return `datasets.load_dataset` of a file; it is imported, and pandas with it, where files are read by it."""
    import datasets

    return datasets.load_dataset(kind, data_files=data_files)


def concatenate_datasets(parts: list[Any]) -> Any:
    """Return `datasets.concatenate_datasets` of the rows of several files."""
    import datasets

    return datasets.concatenate_datasets(parts)


def copy_to_local(src: str, cache_dir: str | None = None, *args: Any, use_shm: bool = False, **kwargs: Any) -> str:
    """Return `src` as it is: a local path, or a name that transformers resolves.

    Raises:
        ValueError: `src` is a remote path, which upstream fetches here.
    """
    if str(src).startswith(("hdfs://", "s3://", "gs://", "oss://")):
        raise ValueError(f"{src} is a remote path: copy it to this machine and give the local path instead")
    return str(src)


def invalidate_all_scales(model: nn.Module) -> None:
    """Forget the scales of quantized layers: there are none."""


def apply_npu_fsdp_patches(model_config: Any = None) -> None:
    """Do nothing: upstream gives models the kernels of NPUs here, before it builds one."""
