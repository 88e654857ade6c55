"""A generated project that makes pages, runs to make them of, and a browser to open them in."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from extractor.cli.app import run
from tests.project.support import Configuration, make
from tests.releases import NEWEST
from tests.report.support import Opened, write_run

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def reporting(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose runs are reported on."""
    return make(
        Configuration(NEWEST[-1], features=("provenance", "reward_logs")),
        tmp_path_factory.mktemp("reporting") / "project",
    ).root


@pytest.fixture(scope="session")
def report() -> Callable[..., Path]:
    """Makes a page of some runs, as their owner would."""

    def reporter(page: Path, *runs: Path) -> Path:
        assert run(["report", *map(str, runs), "-o", str(page)]) == 0
        return page

    return reporter


@pytest.fixture(scope="session")
def comparison(report: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of three runs; the last one has neither validation nor times, and fewer steps."""
    folder = tmp_path_factory.mktemp("comparison")
    runs = [
        write_run(folder / "first", 120, 0.02),
        write_run(folder / "second", 120, 0.03, lr="1e-5"),
        write_run(folder / "third", 60, 0.05, lr="1e-4", bare=True),
    ]
    return report(folder / "page.html", *runs)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium: that of VEXTRACT_BROWSER, or the first that is found."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    given = os.environ.get("VEXTRACT_BROWSER")
    executable = given or next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if executable is None:
        pytest.skip("there is no Chromium: apt-get install chromium-headless-shell, or set VEXTRACT_BROWSER")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=executable)
        yield launched
        launched.close()


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Opens a page; at the end none of those opened may have had an error, or have asked for anything but itself."""
    shown: list[Opened] = []

    def opener(page: Path | str, width: int = 1300, **settings: Any) -> Opened:
        address = page.as_uri() if isinstance(page, Path) else page
        shown.append(Opened(browser, address, width, settings))
        return shown[-1]

    yield opener
    for opened in shown:
        opened.page.context.close()
        assert opened.complaints == []
        assert opened.requests == [opened.address]
