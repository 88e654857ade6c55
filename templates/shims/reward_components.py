# vextract:template - edit freely
"""The components of a batch's rewards, where a sample may lack what others have."""

from __future__ import annotations

from typing import Any


def put(values: list[Any], row: int, count: int, value: Any) -> None:
    """Set the value of a sample in a list of `count` values, which has None for the others until they are set."""
    values.extend([None] * (count - len(values)))
    values[row] = value
