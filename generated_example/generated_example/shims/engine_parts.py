# vextract:template shims/engine_parts.py - edit freely
"""Parts of upstream's training engine that this project does in other ways, or not at all."""

from __future__ import annotations

from typing import Any, NoReturn


def _left_to_the_project(what: str, where: str) -> NoReturn:
    raise NotImplementedError(f"the engine does not {what} in this project\nhint: {where}")


class FSDPCheckpointManager:
    """Stands for upstream's checkpoints: `run/checkpoint.py` writes those of this project."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _left_to_the_project("write checkpoints", "see run/checkpoint.py")


def enable_activation_offloading(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: upstream moves activations to CPU memory here."""
    _left_to_the_project("offload activations", "set actor_rollout_ref.model.enable_gradient_checkpointing=true")


def apply_monkey_patch(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: upstream changes the model's attention for sequence parallelism and fused kernels here."""
    _left_to_the_project("change models", "build what you need in workers/trained_model.py")


def apply_npu_fsdp_patches(model_config: Any = None) -> None:
    """Do nothing: upstream gives models the kernels of NPUs here, before it builds one."""


def apply_qat(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: upstream prepares a model for quantization-aware training here."""
    _left_to_the_project("train for quantization", "use full verl for it")


def enable_qat_fuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: upstream quantizes fused weights alike here."""
    _left_to_the_project("train for quantization", "use full verl for it")


class QATQuantizer:
    """Stands for upstream's quantizer of weights on their way to the rollout."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _left_to_the_project("train for quantization", "use full verl for it")
