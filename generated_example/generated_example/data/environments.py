# vextract:template base/__package__/data/environments.py - edit freely
"""Calls of an environment's methods, which may be coroutines."""

import asyncio
import inspect
from typing import Any


def resolved(result: Any) -> Any:
    """Return what a method of an environment returns, waited for if it is a coroutine."""

    async def wait() -> Any:
        return await result

    is_awaited = type(result) is not tuple and inspect.isawaitable(result)
    return asyncio.run(wait()) if is_awaited else result
