"""Fixtures of the tests that run a project."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.project.support import make
from tests.verify.projects import with_what_computes


@pytest.fixture(scope="session")
def python() -> str:
    """A Python that has a project's requirements."""
    named = os.environ.get("VEXTRACT_TEST_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("torch") is None:
        pytest.skip("this Python lacks torch, and VEXTRACT_TEST_PYTHON names no other")
    return sys.executable


@pytest.fixture(scope="session")
def made_0_6_1(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PPO project from verl 0.6.1. Do not change it."""
    return make(with_what_computes("0.6.1"), tmp_path_factory.mktemp("made") / "p061").root


@pytest.fixture
def copy_0_6_1(made_0_6_1: Path, tmp_path: Path) -> Path:
    """A project of the test's own."""
    return shutil.copytree(made_0_6_1, tmp_path / "copy")
