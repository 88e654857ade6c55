# vextract:template shims/torch_state_dict.py - edit freely
"""torch's own state-dict functions; upstream carries a copy of them for torch 2.6."""

from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

__all__ = ["StateDictOptions", "set_model_state_dict"]
