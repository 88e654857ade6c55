"""One project for all tests of several processes; each run has a directory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.source import Source
from tests.project.support import Configuration, make


@pytest.fixture(scope="session")
def project(verl_0_6_1: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with every feature."""
    root = tmp_path_factory.mktemp("processes") / "project"
    return make(Configuration("0.6.1", "hf", everything=True), verl_0_6_1, root).root
