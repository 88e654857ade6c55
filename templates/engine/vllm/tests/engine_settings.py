# vextract:template - edit freely; upgrades merge your edits
"""What the tests add to the settings of a run: nothing; without vLLM there are no runs."""

from collections.abc import Callable, Sequence

import pytest


@pytest.fixture
def engine_settings() -> Callable[[Sequence[str]], list[str]]:
    """A function from the overrides of a run to those that it needs besides."""
    pytest.importorskip("vllm")
    return lambda overrides: []
