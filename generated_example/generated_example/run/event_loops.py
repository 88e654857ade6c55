# vextract:template base/__package__/run/event_loops.py - edit freely
"""Event loops of asyncio, where one runs already: in the cells of a notebook."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_running_loop() -> Iterator[None]:
    """Let what is called within it run event loops of its own, though this thread runs one.

    That one waits for the call to return in any case: a notebook's cell is a task of its loop. So hooks may call
    `asyncio.run` there, as anywhere.
    """
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)
