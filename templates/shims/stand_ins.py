# vextract:template - edit freely
"""Stand-ins for upstream code that this project does in another way, or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn

from torch import nn

# A `datasets.Dataset`, and a function that scores, in annotations.
Rows = Any
RawRewardFn = Callable[..., Any]
# How deep vLLM sleeps between rollouts: 2 gives back weights and KV cache, since new weights come anyway.
VLLM_SLEEP_LEVEL = 2


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


def _left_to_the_project(what: str, where: str) -> NoReturn:
    raise NotImplementedError(f"this project does not {what}\nhint: {where}")


class FSDPCheckpointManager:
    """Stands for upstream's checkpoints: `training/checkpoint.py` writes those of this project."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _left_to_the_project("write checkpoints in the engine", "see training/checkpoint.py")


class QATQuantizer:
    """Stands for upstream's quantizer of weights on their way to the rollout."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _left_to_the_project("train for quantization", "use full verl for it")


def apply_qat(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: upstream prepares a model for quantization-aware training here."""
    _left_to_the_project("train for quantization", "use full verl for it")


def enable_qat_fuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: upstream quantizes fused weights alike here."""
    _left_to_the_project("train for quantization", "use full verl for it")


def invalidate_all_scales(model: nn.Module) -> None:
    """Forget the scales of quantized layers: there are none."""


def enable_activation_offloading(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: upstream moves activations to CPU memory here."""
    _left_to_the_project("offload activations", "set actor_rollout_ref.model.enable_gradient_checkpointing=true")


def apply_monkey_patch(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: upstream changes the model's attention for sequence parallelism and fused kernels here."""
    _left_to_the_project("change models", "build what you need in workers/trained_model.py")


def apply_npu_fsdp_patches(model_config: Any = None) -> None:
    """Do nothing: upstream gives models the kernels of NPUs here, before it builds one."""


def forward_micro_batch_with_prefix_grouper(**kwargs: Any) -> NoReturn:
    """Refuse: upstream computes a prompt once for all its responses here."""
    where = "leave actor_rollout_ref.actor.use_prefix_grouper out"
    _left_to_the_project("compute a prompt once for all its responses (use_prefix_grouper)", where)


async def initialize_mcp_tool(tool_cls: type, tool_config: Any) -> NoReturn:
    """Refuse: upstream connects to an MCP server here, by a client that is not part of its released wheel."""
    _left_to_the_project(f"connect {tool_cls.__name__} to an MCP server", "use tools of `type: native`")


@dataclass
class DistillationConfig:
    """The settings that the losses of distillation read.

    Attributes:
        distillation_loss: upstream's `DistillationLossConfig`.
    """

    distillation_loss: Any
    enabled: bool = True


def compute_forward_kl_topk(**_: Any) -> NoReturn:
    """Refuse: no model here is divided by Megatron."""
    _left_to_the_project("train by Megatron", "leave actor_rollout_ref.actor.strategy out")


class GPUMemoryLogger:
    """A decorator that leaves the function as it is; upstream's logs GPU memory before and after each call."""

    def __init__(self, role: str, *args: Any, **kwargs: Any) -> None:
        self.role = role

    def __call__(self, decorated_function: Callable[..., Any]) -> Callable[..., Any]:
        return decorated_function


def tqbridge(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that leaves the function as it is: in one process a batch is passed by reference."""
    return lambda function: function


class VLLMHijack:
    """Stands where upstream patches vLLM to read adapters from memory, by names that vLLM no longer has."""

    @staticmethod
    def hijack() -> None:
        """Patch nothing: workers/vllm_adapter.py reads them from files, as vLLM does itself."""


def get_version(pkg: str) -> str | None:
    """Return the version of a package; None where it is not installed. The CPU build of vLLM has a name of its own."""
    from importlib.metadata import PackageNotFoundError, version

    for name in (pkg, f"{pkg}-cpu") if pkg == "vllm" else (pkg,):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def put(values: list[Any], row: int, count: int, value: Any) -> None:
    """Set the value of a sample in a list of `count` values, which has None for the others until they are set."""
    values.extend([None] * (count - len(values)))
    values[row] = value
