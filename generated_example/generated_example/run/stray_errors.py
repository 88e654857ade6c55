# vextract:template base/__package__/run/stray_errors.py - edit freely
"""Say in one line what ended a thread or a task that a hook had started, and keep the whole text in a file.

Python writes a traceback for each to the terminal, over the table of the run: a hundred of them hide everything else.
"""

import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..training.hook_errors import raised_in

FILE = "stray_errors.log"


@contextmanager
def stray_errors_in(directory: Path) -> Iterator[None]:
    """Send what is raised within it, where nobody can catch it, to a file in `directory`, and a line to stderr.

    That is what ends threads, what asyncio finds in tasks that nobody awaited, and what a `__del__` raises.
    """
    said: set[tuple[str, str]] = set()

    def note(what: str, error: BaseException | None, text: str) -> None:
        where = (raised_in(error) if error is not None else None) or "no line of this project"
        reason = f"{type(error).__name__}: {' '.join(str(error).split()):.200}" if error is not None else text
        whole = "".join(traceback.format_exception(error)) if error is not None else f"{text}\n"
        try:
            with (directory / FILE).open("a", encoding="utf-8") as file:
                file.write(f"{what}\n{whole}\n")
        except OSError:
            pass
        key = (where, type(error).__name__ if error is not None else text)
        if key not in said:  # the same one may come with every sample
            said.add(key)
            print(f"warning: {what}: {reason}\n  hook: {where}; whole text: {directory / FILE}", file=sys.stderr)

    def of_thread(arguments: threading.ExceptHookArgs) -> None:
        if not isinstance(arguments.exc_value, SystemExit):
            name = arguments.thread.name if arguments.thread is not None else "?"
            note(f"the thread {name!r} has died", arguments.exc_value, "")

    def unraisable(arguments: Any) -> None:
        note("an unhandled error", arguments.exc_value, str(arguments.err_msg or ""))

    class FromAsyncio(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            note("asyncio", error, record.getMessage().partition("\n")[0])

    logger, handler = logging.getLogger("asyncio"), FromAsyncio(logging.WARNING)
    before = threading.excepthook, sys.unraisablehook, logger.propagate
    threading.excepthook, sys.unraisablehook, logger.propagate = of_thread, unraisable, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        threading.excepthook, sys.unraisablehook, logger.propagate = before
