# vextract:template - edit freely
"""In one process a batch is passed by reference: there is no queue to put it into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def tqbridge(*args: Any, **kwargs: Any) -> Callable[[_Function], _Function]:
    """Return a decorator factory that leaves the function as it is."""
    return lambda function: function
