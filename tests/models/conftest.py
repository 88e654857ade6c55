"""The releases whose model side is tested."""

import pytest

from tests.releases import OF_BOTH_KINDS


@pytest.fixture(scope="module", params=OF_BOTH_KINDS)
def release(request: pytest.FixtureRequest) -> str:
    """Upstream's training engine, and the last release whose engines can be held in the process."""
    return str(request.param)
