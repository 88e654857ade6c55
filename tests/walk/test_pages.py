"""Every command of every page runs as printed, in the environment of the tests.

`make setup` only makes the project's environment see what is installed there, and `pip install .` does nothing.
"""

import shutil
import sys
from pathlib import Path

import pytest

from scripts.walk import blocks_of, walk
from tests.project.support import REPOSITORY
from tests.walk.support import HAVE, environment

PAGES = sorted(path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md") for path in REPOSITORY.glob(pattern))
# Those that take longest are for `make test-all`. A project is made, set up, trained and exported in each run.
_LONG = (
    "adopting algorithms environments from-a-run models own-manifest processes provenance python recipes releases "
    "report rewards servers slicing tutorial upgrading verl which-file-wins"
)
LONG = {"README.md", *(f"docs/{name}.md" for name in _LONG.split())}
# What is installed already.
BORROW = """
pip() {
    if [ "$*" != "install ." ]; then command pip "$@"; fi
}
make() {
    if [ "$*" != setup ]; then command make "$@"; return; fi
    "$WALK_PYTHON" -m venv --without-pip .venv
    printf '%s\\n' "$PWD" "$WALK_PACKAGES" > "$(echo .venv/lib/python*/site-packages)/borrowed.pth"
}
"""


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.thorough if page.relative_to(REPOSITORY).as_posix() in LONG else ())
        for page in PAGES
    ],
    ids=lambda page: page.relative_to(REPOSITORY).as_posix(),
)
def test_a_page(page: Path, tmp_path: Path) -> None:
    (tmp_path / "env").write_text(BORROW, encoding="utf-8")
    reader = environment(Path(sys.executable).parent, None)
    reader |= {"BASH_ENV": str(tmp_path / "env"), "WALK_PYTHON": sys.executable, "WALK_PACKAGES": packages()}
    (tmp_path / "here").mkdir()
    if page.is_relative_to(REPOSITORY / "examples"):  # those start at the root of a checkout
        shutil.copytree(REPOSITORY / "examples", tmp_path / "here/examples")
    walk(page, tmp_path / "here", have=HAVE, env=reader)


def packages() -> str:
    """Where the packages of the tests' environment are."""
    return str(Path(pytest.__file__).parents[1])


def test_pages_are_found() -> None:
    assert REPOSITORY / "docs/upgrading.md" in PAGES
    assert len(blocks_of(REPOSITORY / "docs/upgrading.md")) > 3
