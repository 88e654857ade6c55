# vextract:template - edit freely
"""What the tests add to the settings of a run: more responses. Without vLLM there are no runs."""

from collections.abc import Callable, Sequence

import pytest


@pytest.fixture
def engine_settings() -> Callable[[Sequence[str]], list[str]]:
    """Return a function from the overrides of a run to those that it needs besides."""
    pytest.importorskip("vllm")
    # Of the few that the tests ask for, vLLM's random numbers leave none with a reward.
    return lambda overrides: ["actor_rollout_ref.rollout.n=16"]
