# vextract:template base/__package__/memory/command.py - edit freely
"""`python main.py --plan`."""

import os
from typing import Any

from ..output import say


def say_plan(config: Any, processes: int | None, memory_gb: float | None) -> int:
    """Print the plan of a run, on rank 0.

    Args:
        config: the whole config.
        processes: how many there are; None: as many as torchrun has started.
        memory_gb: GiB that each has on its device; None: what this machine's has.

    Returns:
        The exit code: 0 it fits, 1 it does not.

    Raises:
        ConfigError: a model has no config.json, or settings cannot be used.
    """
    if os.environ.get("RANK", "0") != "0":
        return 0
    from .plan import plan_memory

    started = int(os.environ.get("WORLD_SIZE", "1"))
    found = plan_memory(config, processes=started if processes is None else processes, memory_gb=memory_gb)
    say(str(found))
    return 0 if found.fits else 1
