"""README, and that of the project that it makes, are followed to the letter in empty environments.

That is a copy of this checkout, a virtual environment with nothing in it, and an empty cache.
"""

import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from scripts.walk import walk
from tests.project.support import REPOSITORY
from tests.walk.support import HAVE, environment


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.thorough
def test_the_readme_and_that_of_the_project_that_it_makes(tmp_path: Path) -> None:
    checkout, empty = tmp_path / "vextract", tmp_path / "empty"
    for name in listed_files():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, checkout / name)
    venv.create(empty, with_pip=True)
    reader = environment(empty / "bin", tmp_path / "cache")
    walk(checkout / "README.md", checkout, have=HAVE, env=reader)
    (project,) = {path.parent for path in checkout.glob("*/vextract.lock")} - {checkout / "generated_example"}
    walk(project / "README.md", project, have=HAVE, env=reader)


def listed_files() -> list[str]:
    """The files of this checkout, as a fresh clone would have them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if (REPOSITORY / name).is_file()]
