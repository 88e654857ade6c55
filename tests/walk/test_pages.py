"""Every command of every page runs as printed, in the environment of the tests.

`make setup` only makes the project's environment see what is installed there, and `pip install .` does nothing. README,
and that of the project that it makes, are followed to the letter in empty environments as well: a copy of this
checkout, a virtual environment with nothing in it, and an empty cache.
"""

import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts.walk import walk
from tests.project.support import REPOSITORY

pytestmark = [pytest.mark.network, pytest.mark.slow]
PAGES = sorted(path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md") for path in REPOSITORY.glob(pattern))
# Those that take longest are for `make test-all`. A project is made, set up, trained and exported in each run.
_LONG = (
    "adopting algorithms environments from-a-run models own-manifest processes provenance python recipes releases "
    "report rewards servers slicing tutorial upgrading verl which-file-wins"
)
LONG = {"README.md", *(f"docs/{name}.md" for name in _LONG.split())}
# What blocks of a page may need, and is here.
HAVE = ["vllm"] * (find_spec("vllm") is not None)
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


def environment(programs: Path, **more: str) -> dict[str, str]:
    """A reader's environment: an activated virtual environment, no GPU, no hub, and nothing of pytest's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON", "VEXTRACT"))}
    kept |= {"PATH": f"{programs}:{kept['PATH']}", "VIRTUAL_ENV": str(programs.parent), "NO_COLOR": "1"}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **more}


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
    installed = {"WALK_PYTHON": sys.executable, "WALK_PACKAGES": str(Path(pytest.__file__).parents[1])}
    reader = environment(Path(sys.executable).parent, BASH_ENV=str(tmp_path / "env"), **installed)
    (tmp_path / "here").mkdir()
    if page.is_relative_to(REPOSITORY / "examples"):  # those start at the root of a checkout
        shutil.copytree(REPOSITORY / "examples", tmp_path / "here/examples")
    walk(page, tmp_path / "here", have=HAVE, env=reader)


@pytest.mark.thorough
def test_the_readme_and_that_of_the_project_that_it_makes(tmp_path: Path) -> None:
    checkout, empty = tmp_path / "vextract", tmp_path / "empty"
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in listed:
        if (REPOSITORY / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, checkout / name)
    venv.create(empty, with_pip=True)
    reader = environment(empty / "bin", VEXTRACT_CACHE_DIR=str(tmp_path / "cache"))
    walk(checkout / "README.md", checkout, have=HAVE, env=reader)
    (project,) = {path.parent for path in checkout.glob("*/vextract.lock")} - {checkout / "generated_example"}
    walk(project / "README.md", project, have=HAVE, env=reader)
