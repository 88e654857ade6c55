"""When the optimizer steps of this process ended, whichever library takes them.

A step is timed from the end of one optimizer step to the end of the next, so that it holds all that a training loop
does, and the same for every library.
"""

from __future__ import annotations

import json
import os
import time


class Clock:
    """Notes the end of every optimizer step from now on."""

    def __init__(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.ends: list[float] = []
        register_optimizer_step_post_hook(lambda *_: self.ends.append(time.time()))

    def report(self) -> None:
        """Print seconds to the first optimizer step's end, from when the parent started this process, and per step."""
        started = float(os.environ["BENCHMARK_STARTED"])
        steps = [later - earlier for earlier, later in zip(self.ends, self.ends[1:], strict=False)]
        print(json.dumps({"first": self.ends[0] - started, "steps": steps}))
