"""When the optimizer steps of this process ended, whichever library takes them.

A step is timed from the end of one optimizer step to the end of the next, so that it holds all that a training loop
does, and the same for every library. Processor time is that of this process, user and system; it says what a run takes
on a machine that others use as well, where the clock on the wall says how long it waited for them.
"""

import itertools
import json
import os
import time


class Clock:
    """Notes the end of every optimizer step from now on."""

    def __init__(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.ends: list[float] = []
        self.processor_ends: list[float] = []
        register_optimizer_step_post_hook(lambda *_: self._note())

    def report(self) -> None:
        """Print seconds to the first optimizer step's end, from when the parent started this process, and per step."""
        started = float(os.environ["BENCHMARK_STARTED"])
        report = {
            "first": self.ends[0] - started,
            "steps": _between(self.ends),
            "processor_first": self.processor_ends[0],
            "processor_steps": _between(self.processor_ends),
        }
        print(json.dumps(report))

    def _note(self) -> None:
        self.ends.append(time.time())
        self.processor_ends.append(time.process_time())


def _between(ends: list[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(ends)]
