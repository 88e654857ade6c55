# vextract:template - edit freely; upgrades merge your edits
"""How long each phase of a step takes, and which one is under way."""

import contextlib
import time
from collections.abc import Iterator

_under_way: list[str] = []


@contextlib.contextmanager
def timed(name: str, timing: dict[str, float]) -> Iterator[None]:
    """Add the seconds spent within it to `timing[name]`; upstream's metric is then timing_s/`name`."""
    start = time.perf_counter()
    _under_way.append(name)
    try:
        yield
    finally:
        _under_way.remove(name)
    timing[name] = timing.get(name, 0.0) + time.perf_counter() - start


def current_phase() -> str:
    """The phase that began last and has not ended."""
    return _under_way[-1] if _under_way else "between steps"
