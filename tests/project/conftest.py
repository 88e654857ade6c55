"""Projects of the newest release; a test that changes one works on a copy."""

from pathlib import Path

import pytest

from tests.project.support import Configuration, Maker, copy_of
from tests.releases import NEWEST


@pytest.fixture
def project(made: Maker, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A project of the test's own: newest release, transformers, GRPO, and what the module names as FEATURES."""
    features = getattr(request.module, "FEATURES", ())
    return copy_of(made(Configuration(NEWEST[-1], "hf", features=features)), tmp_path)


@pytest.fixture
def root(made: Maker) -> Path:
    """The project of the newest release as it comes, shared: look, do not touch."""
    return made(Configuration(NEWEST[-1])).root
