"""The tables that scripts write are those of today."""

import subprocess
import sys

import pytest

from tests.project.support import REPOSITORY


@pytest.mark.parametrize("script", ["algorithms", "releases"])
def test_the_page_says_what_the_script_would_write(script: str) -> None:
    """The table of algorithms; and what README claims, by the table of releases."""
    done = subprocess.run(
        [sys.executable, f"scripts/{script}.py", "--check"],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
