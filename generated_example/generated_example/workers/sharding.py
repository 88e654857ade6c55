# vextract:template base/__package__/workers/sharding.py - edit freely
"""Models on this process's device, or shared out between the processes by FSDP2."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor

from ..run.distributed import Ranks
from ..shims.device import get_device_name, here, to_dtype
from ..vendored.utils.fsdp_utils import apply_fsdp2, fsdp2_load_full_state_dict


def place(module: nn.Module, fsdp_config: Any, ranks: Ranks) -> nn.Module:
    """Put a model on this process's device; with several processes, share it out between them by FSDP2.

    Args:
        module: with its weights on rank 0, whose they become everywhere; on the other processes it needs none. Where
            each process has read them all, only those that are trained become rank 0's.
        fsdp_config: how to share it out.
        ranks: this process among its peers.
    """
    if ranks.world_size == 1:
        return module.to(here())
    mesh = _mesh(int(fsdp_config.fsdp_size), ranks.world_size)
    each_has_all = not ranks.any(any(parameter.is_meta for parameter in module.parameters()))
    full_state = module.state_dict() if ranks.rank == 0 and not each_has_all else {}
    for parameter in module.parameters() if each_has_all else ():
        if parameter.requires_grad:
            dist.broadcast(parameter.data, src=0)
    apply_fsdp2(
        module,
        {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(
                param_dtype=to_dtype(fsdp_config.dtype),
                reduce_dtype=torch.float32,
                cast_forward_inputs=True,
            ),
            "offload_policy": None,
            "reshard_after_forward": fsdp_config.reshard_after_forward,
        },
        {"wrap_policy": {"transformer_layer_cls_to_wrap": _layer_classes(module, fsdp_config)}},
    )
    if not each_has_all:
        fsdp2_load_full_state_dict(module, full_state, mesh)
    return module


def whole(value: Any, device: str | None = "cpu") -> Any:
    """Return a tensor in one piece, whether or not the processes share it; anything else as it is.

    Args:
        value: a tensor, or something else.
        device: where it is to be; None: where it is computed with.
    """
    if isinstance(value, DTensor):
        value = value.full_tensor()
    return value.detach().to(device) if isinstance(value, torch.Tensor) else value


def local(value: torch.Tensor) -> torch.Tensor:
    """Return this process's share of a tensor: all of it, if the processes do not share it."""
    return value.to_local() if isinstance(value, DTensor) else value


def like(value: torch.Tensor, shared: Any) -> torch.Tensor:
    """Return a whole tensor as another one is: shared out between the processes, or not. Only rank 0's values count."""
    if isinstance(shared, DTensor) and value.dim() > 0:
        return distribute_tensor(value.to(shared.device), shared.device_mesh, shared.placements)
    return value.clone()


def _mesh(fsdp_size: int, world_size: int) -> DeviceMesh:
    """Return the processes in a row that shares a model out, or in rows of `fsdp_size` with a copy each (HSDP)."""
    if 0 < fsdp_size < world_size:
        shape, names = (world_size // fsdp_size, fsdp_size), ("ddp", "fsdp")
        return init_device_mesh(get_device_name(), shape, mesh_dim_names=names)
    return init_device_mesh(get_device_name(), (world_size,), mesh_dim_names=("fsdp",))


def _layer_classes(module: nn.Module, fsdp_config: Any) -> list[str]:
    """Return the classes of the layers that are sharded one by one."""
    configured = fsdp_config.wrap_policy.transformer_layer_cls_to_wrap
    if isinstance(configured, str):
        return [configured]
    return list(configured or sorted(getattr(module, "_no_split_modules", None) or [type(module).__name__]))
