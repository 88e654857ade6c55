# vextract:template - edit freely
"""How long each phase of a step takes, which ones are under way, and how far they have come.

Whatever works through parts (prompts, passes, decode steps) says so here; `terminal.py` shows it.
"""

import contextlib
import contextvars
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..switches import OVERLAP


@dataclass
class Phase:
    """Something that is under way.

    Attributes:
        name: as in upstream's timing_s/`name`, or what it does in words.
        began: when, by `time.monotonic`.
        total: how many parts it has, each a `unit`; 0: that is not known.
        done: how many of them are done.
        begun: how many are being worked on.
    """

    name: str
    began: float = field(default_factory=time.monotonic)
    total: int = 0
    unit: str = ""
    done: int = 0
    begun: int = 0


_under_way: list[Phase] = []
if OVERLAP:
    # Of what goes on beside the training loop, and is not shown.
    _beside: contextvars.ContextVar[list[Phase] | None] = contextvars.ContextVar("beside", default=None)


if OVERLAP:

    @contextlib.contextmanager
    def beside_the_loop() -> Iterator[None]:
        """Keep what is done within it, in a thread of its own, out of the phases of the training loop."""
        token = _beside.set([])
        try:
            yield
        finally:
            _beside.reset(token)


def _here() -> list[Phase]:
    if OVERLAP and (beside := _beside.get()) is not None:
        return beside
    return _under_way


@contextlib.contextmanager
def timed(name: str, timing: dict[str, float]) -> Iterator[None]:
    """Add the seconds spent within it to `timing[name]`; upstream's metric is then timing_s/`name`."""
    start = time.perf_counter()
    with under_way(name):
        yield
    timing[name] = timing.get(name, 0.0) + time.perf_counter() - start


@contextlib.contextmanager
def under_way(name: str) -> Iterator[None]:
    """Have a phase of this name under way within it; its time is part of that of the phase around it."""
    phase, phases = Phase(name), _here()
    phases.append(phase)
    try:
        yield
    finally:
        phases[:] = [other for other in phases if other is not phase]


def expect(total: int, unit: str) -> None:
    """Say that the phase under way consists of so many parts, none of which is done yet."""
    for phase in _here()[-1:]:
        phase.done, phase.begun, phase.total, phase.unit = 0, 0, total, unit


def advance(parts: int = 1) -> None:
    """Say that so many more parts of the phase under way are done."""
    for phase in _here()[-1:]:
        phase.done += parts


def begin(parts: int) -> None:
    """Say that work on so many parts begins, and that what was begun before is done."""
    for phase in _here()[-1:]:
        phase.done, phase.begun = phase.done + phase.begun, parts


def phases() -> list[Phase]:
    """Return the phases that are under way, each within the one before it."""
    return list(_under_way)
