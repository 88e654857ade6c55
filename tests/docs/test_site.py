"""The site is built strictly, and needs nothing from elsewhere."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.project.support import REPOSITORY
from tests.report.conftest import browser as browser

pytestmark = pytest.mark.slow


# What a page fetches by itself: scripts, styles, pictures and frames; links to follow do not count.
FETCHED = re.compile(
    r"""<link (?![^>]*rel="?canonical)[^>]*href="?((?:https?:)?//[^"\s>]*)|\bsrc="?((?:https?:)?//[^"\s>]*)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_are_whole_and_fetch_nothing_from_elsewhere(site: Path) -> None:
    """A fence that the extension does not understand would be shown as text."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not FETCHED.findall(re.sub(r"<code>.*?</code>", "", text, flags=re.DOTALL)), page.name
        assert "```" not in re.sub(r"<code>.*?</code>", "", text), page.name


def test_every_key_of_the_reference_is_explained() -> None:
    """Each setting has a comment, beside it, above it, or above its neighbours."""
    from scripts.reference import config_page

    rows = re.findall(r"^\| `([^`]+)` \| `[^\n]*` \| (.*) \|$", config_page(), re.MULTILINE)
    assert len(rows) > 250
    assert [name for name, meaning in rows if not meaning.strip()] == []


def test_nothing_is_cut(site: Path, browser: Any) -> None:
    """Code on a small desktop, and the table of presets on a phone."""
    with contextlib.closing(browser.new_page(viewport={"width": 1300, "height": 900})) as page:
        for path in ("index.html", "tutorial.html", "python.html", "reference/cli.html"):
            page.goto((site / path).as_uri())
            cut = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.innerText)"
            assert page.locator("pre > code").evaluate_all(cut) == []
        page.set_viewport_size({"width": 390, "height": 900})
        page.goto((site / "algorithms.html").as_uri())
        right = page.locator("table").first.evaluate("table => table.getBoundingClientRect().right")
        assert right <= 390
        assert page.locator("table").first.locator("th").all_inner_texts() == ["preset", "estimator", "loss", "verl"]
