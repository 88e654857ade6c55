"""Forks, and a command line in this process."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.importers.adopt.forks import Fork
from tests.releases import source_of

__all__ = ["run"]


@pytest.fixture(autouse=True)
def _no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def fork_0_5_0(tmp_path: Path) -> Fork:
    return Fork(tmp_path / "repo", source_of("0.5.0"))


@pytest.fixture
def fork_0_6_1(tmp_path: Path) -> Fork:
    return Fork(tmp_path / "repo", source_of("0.6.1"))
