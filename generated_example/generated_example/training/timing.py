# vextract:template - edit freely; upgrades merge your edits
"""How long each phase of a step takes."""

import contextlib
import time
from collections.abc import Iterator


@contextlib.contextmanager
def timed(name: str, timing: dict[str, float]) -> Iterator[None]:
    """Add the seconds spent within it to `timing[name]`; upstream's metric is then timing_s/`name`."""
    start = time.perf_counter()
    yield
    timing[name] = timing.get(name, 0.0) + time.perf_counter() - start
