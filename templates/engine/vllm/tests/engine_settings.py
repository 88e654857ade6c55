# vextract:template - edit freely; upgrades merge your edits
"""What the tests add to the settings of a run: nothing; without vLLM there are no runs."""

from collections.abc import Callable

import pytest


@pytest.fixture
def engine_settings() -> Callable[[], list[str]]:
    """A function that gives settings for one run, on the toy model."""
    pytest.importorskip("vllm")
    return list
