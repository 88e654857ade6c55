"""Record which vendored lines a run executes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any


class LineTrace:
    """Records executed lines of some files; other code runs at nearly full speed."""

    def __init__(self, files: Iterable[str]) -> None:
        self.lines: dict[str, set[int]] = {file: set() for file in files}

    def start(self) -> None:
        """Record from now on, in this thread."""
        sys.settrace(self.call)

    def stop(self) -> None:
        """Stop recording."""
        sys.settrace(None)

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Take a call, as `sys.settrace` and `threading.settrace` hand it over."""
        lines = self.lines.get(frame.f_code.co_filename)
        if lines is None:
            return None

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return local

        return local
