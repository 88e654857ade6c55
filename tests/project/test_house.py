"""The order of a default project's own folders: each imports only what stands below it, and none goes in a circle."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.support import PACKAGE, Configuration, Maker
from tests.releases import newest_release

# From the top down. A layer in brackets is not there in all projects; those of one line may import each other.
LAYERS = (
    "(export)",
    "(api)",
    "training",
    "custom",
    "workers",
    "data",
    "run",
    "settings",
    "tracking",
    "output",
    "hooks",
    "absent",
    "registries",
    "rewards",
    "errors",
    "shims : vendored",
)
CONTRACTS = """
[importlinter]
root_package = {package}

[importlinter:contract:order]
name = Each folder imports only what stands below it
type = layers
containers = {package}
exhaustive = True
layers =
    {layers}
# 0.4.0 has no registries of its own: what stands for them comes in late.
ignore_imports =
    {package}.shims.registries -> {package}.registries
unmatched_ignore_imports_alerting = none

[importlinter:contract:circles]
name = No circles within a folder
type = acyclic_siblings
ancestors =
    {folders}
"""


@pytest.mark.parametrize("release", newest_release("0.4.0"))
def test_each_folder_imports_only_what_stands_below_it(made: Maker, release: str, tmp_path: Path) -> None:
    root = made(Configuration(release)).root
    own = sorted(path.name for path in (root / PACKAGE).iterdir() if (path / "__init__.py").is_file())
    contracts = tmp_path / "contracts.ini"
    contracts.write_text(
        CONTRACTS.format(
            package=PACKAGE,
            layers="\n    ".join(LAYERS),
            folders="\n    ".join(f"{PACKAGE}.{name}" for name in own if name not in ("vendored", "shims")),
        )
    )
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache", "--config", contracts],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
