# vextract:template - edit freely; upgrades merge your edits
"""Stop at the end of a step when the user, or the scheduler of the machine, asks for it."""

import os
import signal
from types import FrameType, TracebackType
from typing import Any


class StopSignal:
    """Within it, the first Ctrl-C (or SIGTERM) sets `requested`; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignal":
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not the main thread, as in some notebooks: signals stay as they are
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if error is not None and os.environ.get("WORLD_SIZE", "1") != "1":
            # torchrun ends the other processes when one has failed. They end by themselves, having said what they know.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        if number == signal.SIGINT and os.environ.get("RANK", "0") == "0":
            print("stopping after this step (Ctrl-C again: at once)", flush=True)
