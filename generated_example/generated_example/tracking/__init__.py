# vextract:template base/__package__/tracking/__init__.py - edit freely
"""How long each phase of a step takes."""

import contextlib
import time
from collections.abc import Iterator

# The phases that are under way, each with its beginning, and within the one before it.
phases: list[tuple[str, float]] = []


@contextlib.contextmanager
def timed(name: str, timing: dict[str, float]) -> Iterator[None]:
    """Add the seconds spent within it to `timing[name]`; upstream's metric is then timing_s/`name`."""
    phase = (name, time.perf_counter())
    phases.append(phase)
    try:
        yield
    finally:
        phases.remove(phase)
    timing[name] = timing.get(name, 0.0) + time.perf_counter() - phase[1]
