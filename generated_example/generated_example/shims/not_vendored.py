# vextract:template - edit freely; upgrades merge your edits
"""Upstream functions of features that this project was made without; calling one says which feature is missing."""

from __future__ import annotations

from typing import Any, NoReturn


class FeatureNotVendored(NotImplementedError):
    """The configuration or the data ask for a part of verl that is not in this project."""


def _missing(symbol: str, feature: str) -> NoReturn:
    raise FeatureNotVendored(
        f"{symbol} belongs to the feature `{feature}`, which this project was made without\n"
        f"hint: make the project with `vextract new PATH --with {feature}`, or switch off what asks for it"
    )


def compute_rollout_corr_metrics_from_logprobs(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.trainer.ppo.rollout_corr_helper:compute_rollout_corr_metrics_from_logprobs`."""
    _missing("verl.trainer.ppo.rollout_corr_helper:compute_rollout_corr_metrics_from_logprobs", "rollout_correction")


def default_compute_score(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.reward_score:default_compute_score`."""
    _missing("verl.utils.reward_score:default_compute_score", "scorers")


def extract_multi_modal_inputs(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.model:extract_multi_modal_inputs`."""
    _missing("verl.utils.model:extract_multi_modal_inputs", "multimodal")


def gather_outputs_and_unpad(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.ulysses:gather_outputs_and_unpad`."""
    _missing("verl.utils.ulysses:gather_outputs_and_unpad", "sequence_parallel")


def get_rope_index(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.models.transformers.qwen3_vl:get_rope_index`."""
    _missing("verl.models.transformers.qwen3_vl:get_rope_index", "multimodal")


def index_first_axis(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.attention_utils:index_first_axis`."""
    _missing("verl.utils.attention_utils:index_first_axis", "remove_padding")


def initialize_tools_from_config(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.tools.utils.tool_registry:initialize_tools_from_config`."""
    _missing("verl.tools.utils.tool_registry:initialize_tools_from_config", "tools")


def pad_input(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.attention_utils:pad_input`."""
    _missing("verl.utils.attention_utils:pad_input", "remove_padding")


def prepare_dynamic_batch(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.seqlen_balancing:prepare_dynamic_batch`."""
    _missing("verl.utils.seqlen_balancing:prepare_dynamic_batch", "dynamic_bsz")


def process_image(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.dataset.vision_utils:process_image`."""
    _missing("verl.utils.dataset.vision_utils:process_image", "multimodal")


def process_multi_modal_inputs_for_minicpmo(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.dataset.vision_utils:process_multi_modal_inputs_for_minicpmo`."""
    _missing("verl.utils.dataset.vision_utils:process_multi_modal_inputs_for_minicpmo", "multimodal")


def process_video(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.dataset.vision_utils:process_video`."""
    _missing("verl.utils.dataset.vision_utils:process_video", "multimodal")


def rearrange(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.attention_utils:rearrange`."""
    _missing("verl.utils.attention_utils:rearrange", "remove_padding")


def restore_dynamic_batch(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.seqlen_balancing:restore_dynamic_batch`."""
    _missing("verl.utils.seqlen_balancing:restore_dynamic_batch", "dynamic_bsz")


def ulysses_pad(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.ulysses:ulysses_pad`."""
    _missing("verl.utils.ulysses:ulysses_pad", "sequence_parallel")


def ulysses_pad_and_slice_inputs(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.ulysses:ulysses_pad_and_slice_inputs`."""
    _missing("verl.utils.ulysses:ulysses_pad_and_slice_inputs", "sequence_parallel")


def unpad_input(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for `verl.utils.attention_utils:unpad_input`."""
    _missing("verl.utils.attention_utils:unpad_input", "remove_padding")
