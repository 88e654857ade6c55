"""A vextract that knows the releases up to 0.5.0 only, for which 0.6.1 is a release without a manifest."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from extractor.pipeline.source import Source, cache
from extractor.usecases.draft import ManifestFit, fit
from extractor.values import releases, resources
from scripts.draft import main
from tests.cli.conftest import Result, run

__all__ = ["Result", "run"]

KNOWN = "0.5.0"
UNKNOWN = "0.6.1"


_fits: dict[tuple[str, str], ManifestFit] = {}


@pytest.fixture(autouse=True)
def _each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying a manifest takes seconds, and equal releases give equal results."""

    def fitted(base: str, old: Source, new: Source) -> ManifestFit:
        key = (base, new.release)
        if key not in _fits:
            _fits[key] = fit(base, old, new)
        return _fits[key]

    monkeypatch.setattr("extractor.usecases.draft.fit", fitted)


@pytest.fixture
def drafting(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run scripts/draft.py with these arguments."""

    def runner(*arguments: object) -> Result:
        capsys.readouterr()
        code = main([str(item) for item in arguments])
        return Result(code, *capsys.readouterr())

    return runner


@pytest.fixture
def older(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This vextract knows no release after 0.5.0."""
    folder = tmp_path_factory.mktemp("manifests")
    for path in resources.find_manifests().glob("verl-*.toml"):
        if Version(path.stem.removeprefix("verl-")) <= Version(KNOWN):
            shutil.copy(path, folder)
    monkeypatch.setenv(resources.MANIFESTS, str(folder))
    return folder


@pytest.fixture(scope="session")
def wheel(verl_0_6_1: Source) -> Path:
    """The wheel of 0.6.1, in the cache."""
    pin = releases.load(UNKNOWN).pin
    return cache.find_location() / verl_0_6_1.sha256[:16] / pin.wheel_filename


@pytest.fixture(scope="session")
def found(verl_0_5_0: Source, verl_0_6_1: Source) -> ManifestFit:
    """0.6.1 held against the manifest of 0.5.0."""
    made = fit(KNOWN, verl_0_5_0, verl_0_6_1)
    _fits[KNOWN, UNKNOWN] = made
    return made
