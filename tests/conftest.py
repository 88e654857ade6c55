"""Fixtures that several tests share. verl comes from the package index, through the same code as users get it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from extractor.options import Options
from extractor.source import Source
from tests.releases import NEWEST, source_of

# How long an example takes says how busy the machine is, and nothing else.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def newest_verl() -> Source:
    """The pinned wheel of the newest release."""
    return source_of(NEWEST[-1])


@pytest.fixture(scope="session")
def verl_0_6_1() -> Source:
    """The pinned wheel of verl 0.6.1."""
    return source_of("0.6.1")


@pytest.fixture(scope="session")
def verl_0_5_0() -> Source:
    """The pinned wheel of verl 0.5.0."""
    return source_of("0.5.0")


@pytest.fixture(autouse=True)
def _plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sees printed does not depend on the terminal that it runs in."""
    for name in ("VEXTRACT_DEBUG", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, with nothing in it."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("VEXTRACT_CACHE_DIR", str(cache))
    return cache


@pytest.fixture(scope="session")
def options() -> Options:
    """The options behind most tests' projects."""
    return Options(package="toy", verl="0.6.1")
