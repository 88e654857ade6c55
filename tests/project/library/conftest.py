"""A project that scripts of the tests use as a library."""

from pathlib import Path

import pytest

from tests.project.support import TOGETHER, Configuration, Maker, copy_of
from tests.releases import NEWEST, newest_release


@pytest.fixture(scope="module", params=newest_release())
def project(request: pytest.FixtureRequest, made: Maker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of(made(Configuration(request.param, "hf", features=TOGETHER)), tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def newest(made: Maker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of the newest release alone, for what does not depend on the release."""
    return copy_of(made(Configuration(NEWEST[-1], "hf", features=TOGETHER)), tmp_path_factory.mktemp("newest"))
