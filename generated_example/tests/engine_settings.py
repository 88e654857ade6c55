# vextract:template engine/hf/tests/engine_settings.py - edit freely
"""What the tests add to the settings of a run: nothing, since transformers is there."""

from collections.abc import Callable, Sequence

import pytest


@pytest.fixture
def engine_settings() -> Callable[[Sequence[str]], list[str]]:
    """Return a function from the overrides of a run to those that it needs besides."""
    return lambda overrides: []
