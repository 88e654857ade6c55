"""Each project is made once for all tests; a test that changes one works on a copy."""

from pathlib import Path

import pytest

from tests.project.support import Configuration, Made, Maker, copy_of, make
from tests.releases import NEWEST


@pytest.fixture(scope="session")
def made(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Makes projects, each once. They are shared: look, do not touch."""
    known: dict[Configuration, Made] = {}

    def maker(configuration: Configuration) -> Made:
        if configuration not in known:
            root = tmp_path_factory.mktemp("made") / str(configuration)
            known[configuration] = make(configuration, root)
        return known[configuration]

    return maker


@pytest.fixture
def project(made: Maker, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A project of the test's own: newest release, transformers, GRPO, and what the module names as FEATURES."""
    features = getattr(request.module, "FEATURES", ())
    return copy_of(made(Configuration(NEWEST[-1], "hf", features=features)), tmp_path)


@pytest.fixture
def root(made: Maker) -> Path:
    """The project of the newest release as it comes, shared: look, do not touch."""
    return made(Configuration(NEWEST[-1])).root
