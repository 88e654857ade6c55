# vextract:template - edit freely
"""An event loop in a thread of its own, for what many sessions of this process share."""

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

# Seconds that what is served gets to end in, when the process ends.
GRACE = 10.0


class Background:
    """Serves something until this process ends; sessions in other threads run coroutines beside it.

    Args:
        served: is entered at once, and left when the process ends.
    """

    def __init__(self, served: AbstractAsyncContextManager[Any]) -> None:
        self.loop, self.served = asyncio.new_event_loop(), served
        threading.Thread(target=self.loop.run_forever, name="background", daemon=True).start()
        asyncio.run_coroutine_threadsafe(self.served.__aenter__(), self.loop).result()
        atexit.register(self._end)

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return what a coroutine returns that runs in the background; if this is cancelled, it is."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def _end(self) -> None:
        asyncio.run_coroutine_threadsafe(self.served.__aexit__(None, None, None), self.loop).result(GRACE)
