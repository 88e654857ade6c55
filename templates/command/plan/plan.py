"""How much memory each part of a run takes, phase by phase, from its config alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from .table import as_text

GIB = 2**30
PHASES = ("gen", "old_log_prob", "ref", "values", "teacher", "reward_model", "update_critic", "update_actor")
# CUDA's own memory of a process, and NCCL's buffers, neither of them measured; and how much more torch's allocator has
# than what comes and goes within a step: 0.32 of it on an H100, with half a billion weights, in small and large passes.
CUDA_CONTEXT = int(0.6 * GIB)
NCCL_BUFFERS = int(1.0 * GIB)
CUDA_IDLE_SHARE = 0.3
PASSING = ("activations", "logits", "gathered", "copies for autocast", "optimizer step")


@dataclass
class MemoryPlan:
    """Bytes that a process holds on its device.

    Attributes:
        processes: how many there are.
        device: cpu or cuda.
        capacity: bytes that there are for each process.
        lines: for each thing its bytes in each phase; phases are named as in `timing_s/...`.
        resting: the lines that are in CPU memory instead, where the device is another one.
        notes: what is not counted.
        changes: settings that make it fit, by name; empty where it fits as it is.
        changed: the plan with these; None: there are none.
    """

    processes: int
    device: str
    capacity: int
    phases: tuple[str, ...] = ()
    lines: dict[str, dict[str, int]] = field(default_factory=dict)
    resting: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)
    changed: MemoryPlan | None = None

    def add(self, name: str, size: float, phases: Iterable[str] | None = None, *, rests: bool = False) -> None:
        """Add a line; where it is there already, add to it."""
        if size <= 0:
            return
        for phase in self.phases if phases is None else phases:
            if phase in self.phases:
                line = (self.resting if rests else self.lines).setdefault(name, {})
                line[phase] = line.get(phase, 0) + int(size)

    def total(self, phase: str) -> int:
        """Return the bytes of a phase."""
        return sum(line.get(phase, 0) for line in self.lines.values())

    @property
    def peak(self) -> str:
        """The phase that takes most."""
        return max(self.phases, key=self.total)

    @property
    def fits(self) -> bool:
        """Whether there is room for it."""
        return self.total(self.peak) <= self.capacity

    def __str__(self) -> str:
        return as_text(self)


def plan_memory(config: Any, *, processes: int = 1, memory_gb: float | None = None) -> MemoryPlan:
    """Work out what a run takes on the device of each process, without reading weights.

    Models are built on torch's meta device from their config.json, and their passes are followed operator by operator.
    Rows are taken to be as long as they may be. The first process is meant, which takes most.

    Args:
        config: the whole config, from `load_config`.
        processes: how many there are.
        memory_gb: what each has on its device, in GiB; None: what this machine's has.

    Returns:
        The plan. Where it does not fit, `changes` says what would.

    Raises:
        ConfigError: a model has no config.json, settings cannot be used, or there are no processes or no memory.
    """
    if not isinstance(processes, int) or processes < 1:
        raise ConfigError(f"processes is {processes}", "say how many processes there will be: 1, or more")
    if memory_gb is not None and not memory_gb > 0:
        raise ConfigError(f"the memory of a device is {memory_gb} GiB", "say how many GiB each device has, such as 80")
    from .advice import advised
    from .parts import Planner
    from .place import capacity_of, model_at_hand, settled

    config = settled(config)
    planner = Planner(processes, capacity_of(config, processes, memory_gb))
    with model_at_hand(config):
        return advised(planner, config)
