"""A project of verl 0.6.1 on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.project.support import Configuration, make


@pytest.fixture(scope="session")
def _written(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(Configuration("0.6.1"), tmp_path_factory.mktemp("graph") / "toy").root


@pytest.fixture
def project(_written: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(_written, tmp_path / "toy"))
