# vextract:template - edit freely
"""How much of what the GPUs could compute an update uses, as upstream's workers report it."""

from functools import cache
from typing import Any

from torch import nn

from ..vendored.protocol import DataProto
from ..vendored.utils.device import get_device_name
from ..vendored.utils.flops_counter import FlopsCounter


def flops_metrics(
    role: str, module: nn.Module, batch: DataProto, seconds: float, epochs: int, world_size: int
) -> dict[str, Any]:
    """Compute the model FLOP utilisation of an update.

    Args:
        role: actor or critic.
        module: its config names the kind of model; upstream's counter gives 0 for kinds that it does not know.
        batch: the global batch; `meta_info["global_token_num"]` has the number of tokens of each row.
        seconds: that the update took.
        epochs: times that the batch was trained on.
        world_size: how many processes did so together.

    Returns:
        perf/mfu/<role>: of the speed that the GPUs promise in bfloat16. Nothing on a CPU, which promises none.
    """
    if get_device_name() == "cpu":
        return {}
    estimated, promised = _counter(module).estimate_flops(batch.meta_info["global_token_num"], seconds)
    return {f"perf/mfu/{role}": estimated * epochs / promised / world_size}


@cache
def _counter(module: nn.Module) -> FlopsCounter:
    return FlopsCounter(module.config)
