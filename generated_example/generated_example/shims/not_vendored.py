# vextract:template shims/not_vendored.py.jinja - edit freely
"""Upstream functions of features that this project was made without; calling one says which feature is missing."""

from collections.abc import Callable
from typing import Any, NoReturn


class FeatureNotVendored(NotImplementedError):
    """The configuration or the data ask for a part of verl that is not in this project."""


# Features that no project has.
WITHHELD = {"npu", "sequence_parallel", "torch_2_6"}


def _left_out(symbol: str, feature: str) -> Callable[..., NoReturn]:
    """Return what stands for a function of a feature: it refuses, and says how to get the feature."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        way = "" if feature in WITHHELD else f"add it with `vextract add {feature}`, or "
        text = f"{symbol} belongs to the feature `{feature}`, which this project was made without"
        raise FeatureNotVendored(f"{text}\nhint: {way}switch off what asks for it")

    refuse.__name__ = refuse.__qualname__ = symbol.rpartition(":")[2]  # which is looked at, and pickled
    return refuse


StateDictOptions = _left_out("verl.third_party.torch.distributed.checkpoint.state_dict:StateDictOptions", "torch_2_6")
build_multimodal_processor_inputs = _left_out(
    "verl.utils.tokenizer.tokenizer:build_multimodal_processor_inputs", "multimodal"
)
ceildiv = _left_out("verl.utils.seqlen_balancing:ceildiv", "dynamic_bsz")
gather_outputs_and_unpad = _left_out("verl.utils.ulysses:gather_outputs_and_unpad", "sequence_parallel")
index_first_axis = _left_out("verl.utils.npu_flash_attn_utils:index_first_axis", "npu")
load_all_tools = _left_out("verl.tools.tool_registry:load_all_tools", "tools")
pad_input = _left_out("verl.utils.npu_flash_attn_utils:pad_input", "npu")
rearrange = _left_out("verl.utils.npu_flash_attn_utils:rearrange", "npu")
rearrange_micro_batches = _left_out("verl.utils.seqlen_balancing:rearrange_micro_batches", "dynamic_bsz")
restore_dynamic_batch = _left_out("verl.utils.seqlen_balancing:restore_dynamic_batch", "dynamic_bsz")
set_model_state_dict = _left_out(
    "verl.third_party.torch.distributed.checkpoint.state_dict:set_model_state_dict", "torch_2_6"
)
ulysses_pad = _left_out("verl.utils.ulysses:ulysses_pad", "sequence_parallel")
ulysses_pad_and_slice_inputs = _left_out("verl.utils.ulysses:ulysses_pad_and_slice_inputs", "sequence_parallel")
unpad_input = _left_out("verl.utils.npu_flash_attn_utils:unpad_input", "npu")
