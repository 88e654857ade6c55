"""An export against the real thing: what it names is loaded and called by the target release's own functions."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extractor.pipeline.source import Source
from tests.importers.conftest import make, put, vextract
from tests.releases import NEWEST, source_of

pytest.importorskip("torch")
pytest.importorskip("hydra")

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples/both_ways"
# Each takes half a minute, nearly all of it `import verl`: releases of each way to take reward managers.
KINDS = ("0.6.1", "0.7.0", NEWEST[-1])
EACH = [pytest.param(release, marks=() if release == NEWEST[-1] else pytest.mark.thorough) for release in KINDS]


def unpacked(source: Source, folder: Path) -> Path:
    """A release as files."""
    for path, data in source.files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return folder


def run(script: str, *arguments: str | Path) -> dict[str, Any]:
    """Run a script of bash, and read the JSON in the last line that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    words = ["bash", "-c", script, "bash", *map(str, arguments)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def both_ways(
    project: Path, release: str, folder: Path, estimator: str, *settings: str
) -> tuple[dict[str, Any], list[str]]:
    """Load what an export of a project names as verl does, in its environment, and as the project does.

    Returns:
        What came of it, which is the same, and the classes of the reward manager and the dataset under verl.
    """
    out = folder / "out"
    result = vextract("export", project, "-o", out, "--json", *(word for item in settings for word in ("--set", item)))
    assert result.code == 0, result.err
    overrides = json.dumps(result.json["overrides"])
    for name, value in (("$HERE", str(out)), ("$NNODES", "1"), ("$GPUS", "1")):
        overrides = overrides.replace(name, value)
    put(folder, {"overrides.json": overrides})
    root = unpacked(source_of(release), folder / "verl")
    command = 'exec "$PYTHON" -m tests.importers.both_sides "$@"'
    there = run(f'source "$4/env.sh" && {command}', estimator, "verl", root, out, folder / "overrides.json")
    here = run(command, estimator, "project", project, project.name, out / "toy_model", *settings)
    classes = there["rewards"].pop("manager") + there["prompts"].pop("class")
    for part in ("prompts", "advantages", "rewards"):
        assert there[part] == here[part], part
    return there, classes


@pytest.mark.parametrize("release", EACH)
def test_what_an_export_names_is_loaded_by_verl(release: str, tmp_path: Path) -> None:
    project = make(tmp_path, release, "--recipe", "multiturn")
    there, classes = both_ways(project, release, tmp_path, "group_rank")
    assert "ProjectDataset" in classes
    assert there["episode"] == {"mask": [1, 0, 0, 0, 0, 1], "turns": 4, "reward": 1.0}


@pytest.mark.thorough
@pytest.mark.parametrize("release", KINDS)
def test_one_code_both_ways(release: str, tmp_path: Path) -> None:
    project = make(tmp_path, release)
    hooks = sorted((EXAMPLE / "custom").glob("*.py"))
    for hook in hooks:
        shutil.copy(hook, project / "mine/custom" / hook.name)
    settings = (EXAMPLE / "settings.txt").read_text().split()
    _, classes = both_ways(project, release, tmp_path, "above_median", *settings)
    assert "EnvDataset" in classes
    for hook in hooks:
        assert (tmp_path / "out/mine/custom" / hook.name).read_bytes() == hook.read_bytes()
