# vextract:template - edit freely
"""The device of each part of a run."""

from typing import Any

import torch

from ..shims.device import computing_on, here


def device_of(config: Any, part: str) -> torch.device:
    """Return the device of a part of the run.

    Args:
        config: the whole config, whose `local.devices` has been checked.
        part: policy (what is trained: the critic as well), reference or rollout; the others follow the policy.
    """
    chosen = config.local.devices[part] or config.local.devices.policy
    if chosen is None:
        return here()
    with computing_on(torch.device(chosen)):
        return here()
