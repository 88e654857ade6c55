# vextract:template shims/not_vendored.py.jinja - edit freely
"""Upstream functions of features that this project was made without; calling one says which feature is missing."""

from __future__ import annotations

from typing import Any, NoReturn


class FeatureNotVendored(NotImplementedError):
    """The configuration or the data ask for a part of verl that is not in this project."""


def _missing(symbol: str, feature: str) -> NoReturn:
    raise FeatureNotVendored(
        f"{symbol} belongs to the feature `{feature}`, which this project was made without\n"
        f"hint: add it with `vextract add {feature}`, or switch off what asks for it"
    )


def _withheld(symbol: str, feature: str, why: str) -> NoReturn:
    raise FeatureNotVendored(
        f"{symbol} belongs to `{feature}`, which no project has: {why}\nhint: switch off what asks for it"
    )


def build_multimodal_processor_inputs(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.utils.tokenizer.tokenizer:build_multimodal_processor_inputs`."""
    _missing("verl.utils.tokenizer.tokenizer:build_multimodal_processor_inputs", "multimodal")


def ceildiv(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.utils.seqlen_balancing:ceildiv`."""
    _missing("verl.utils.seqlen_balancing:ceildiv", "dynamic_bsz")


def default_compute_score(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.utils.reward_score:default_compute_score`."""
    _missing("verl.utils.reward_score:default_compute_score", "scorers")


def gather_outputs_and_unpad(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.utils.ulysses:gather_outputs_and_unpad`."""
    _withheld(
        "verl.utils.ulysses:gather_outputs_and_unpad",
        "sequence_parallel",
        "it changes the attention of a model that upstream's own workers build, by flash-attn; this "
        "project builds the model itself",
    )


def load_all_tools(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.tools.tool_registry:load_all_tools`."""
    _missing("verl.tools.tool_registry:load_all_tools", "tools")


def rearrange_micro_batches(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.utils.seqlen_balancing:rearrange_micro_batches`."""
    _missing("verl.utils.seqlen_balancing:rearrange_micro_batches", "dynamic_bsz")


def restore_dynamic_batch(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.utils.seqlen_balancing:restore_dynamic_batch`."""
    _missing("verl.utils.seqlen_balancing:restore_dynamic_batch", "dynamic_bsz")


def ulysses_pad(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.utils.ulysses:ulysses_pad`."""
    _withheld(
        "verl.utils.ulysses:ulysses_pad",
        "sequence_parallel",
        "it changes the attention of a model that upstream's own workers build, by flash-attn; this "
        "project builds the model itself",
    )


def ulysses_pad_and_slice_inputs(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for `verl.utils.ulysses:ulysses_pad_and_slice_inputs`."""
    _withheld(
        "verl.utils.ulysses:ulysses_pad_and_slice_inputs",
        "sequence_parallel",
        "it changes the attention of a model that upstream's own workers build, by flash-attn; this "
        "project builds the model itself",
    )
