"""Projects are well formed whatever the length of the package's name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from extractor.pipeline.render.long_imports import wrap_imports
from tests.project.support import Configuration, Made
from tests.releases import NEWEST

SHORT, LONG = "a", "z" * 60
THOROUGH = [
    Configuration(NEWEST[-1], engine, package=package, recipe=recipe)
    for package in (SHORT, "m" * 20, "m" * 30, "m" * 41, "m" * 50, LONG)
    for engine, recipe in (("hf", "multiturn"), ("vllm", "toy"), ("sglang", "gsm8k"), ("hf", "reasoning"))
]


def name_of(configuration: Configuration) -> str:
    """Return the name of a test's case."""
    return f"{configuration}-{configuration.recipe}-{len(configuration.package)}"


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    "configuration",
    [
        Configuration(NEWEST[-1], "hf", everything=True, package=LONG),
        *(pytest.param(configuration, marks=pytest.mark.thorough) for configuration in THOROUGH),
    ],
    ids=name_of,
)
def test_ruff_finds_nothing(made: Callable[[Configuration], Made], configuration: Configuration) -> None:
    root = made(configuration).root
    for arguments in (("check", "--output-format=concise"), ("format", "--diff")):
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", "."]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_an_import_that_is_too_long_gets_a_name_a_line() -> None:
    package = "p" * 70
    long = f"    from {package}.settings.loading import ConfigError, load_config, notes_on\n"
    assert wrap_imports(f"import os\n{long}x = 1\n") == (
        f"import os\n    from {package}.settings.loading import (\n"
        "        ConfigError,\n        load_config,\n        notes_on,\n    )\nx = 1\n"
    )
    short = long.replace(package, "p")
    assert wrap_imports(short) == short
