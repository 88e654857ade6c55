"""The most memory that this process held within its updates, and at all, whichever library makes them (Linux)."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Peak:
    """Notes the peak resident size of each update, from the call of a function to the end of the optimizer step."""

    def __init__(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.updates: list[int] = []
        self.whole = 0
        register_optimizer_step_post_hook(lambda *_: self.updates.append(self._note()))

    def beginning(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with which an update begins, so that it says so."""

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self._note()
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is from now on
            return function(*args, **kwargs)

        return noted

    def report(self) -> None:
        """Print the largest of both in bytes. The first update does not count: it makes the optimizer's state."""
        self._note()
        print(json.dumps({"update": max(self.updates[1:]), "whole": self.whole}))

    def _note(self) -> int:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
        self.whole = max(self.whole, peak)
        return peak
