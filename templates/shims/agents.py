# vextract:template - edit freely
"""What upstream's tool agent loop needs of Ray and of its servers."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol


class LLMServerClient(Protocol):
    """Writes what the model says next, as upstream's client of that name does."""

    async def generate(self, request_id: str, **kwargs: Any) -> Any:
        """Return a `TokenOutput` for `prompt_ids` and `sampling_params`."""


def get_event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that is running."""
    return asyncio.get_running_loop()


def rollout_trace_op(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: upstream notes its calls for tracing services."""
    return function
