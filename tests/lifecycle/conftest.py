"""Upgrades write to a scratch disk that nobody pulls out: flushing it would only cost time."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.lifecycle.worlds import OLD, OLD_TREE, create

__all__ = ["run"]


@pytest.fixture(autouse=True)
def _no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project made by hand, without edits."""
    return create(tmp_path / "toy", OLD_TREE, OLD)
