# vextract:template - edit freely
"""What upstream's tool agent loop has of its servers and of tracing."""

from collections.abc import Callable
from typing import Any, Protocol


class LLMServerClient(Protocol):
    """Writes what the model says next, as upstream's client of that name does."""

    async def generate(self, request_id: str, **kwargs: Any) -> Any:
        """Return a `TokenOutput` for `prompt_ids` and `sampling_params`."""


def rollout_trace_op(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: upstream notes its calls for tracing services."""
    return function
