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
from tests.importers.conftest import vextract
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


def under_verl(
    project: Path, release: str, folder: Path, algorithms: tuple[str, str] = ("group_rank", ""), *settings: str
) -> dict[str, Any]:
    """Export a project, and load what the export names as verl does, in its environment."""
    out = folder / "out"
    options = [word for item in settings for word in ("--set", item)]
    result = vextract("export", project, "-o", out, "--json", *options)
    assert result.code == 0, result.err
    root = unpacked(source_of(release), folder / "verl")
    here = [
        item.replace("$HERE", str(out)).replace("$NNODES", "1").replace("$GPUS", "1")
        for item in result.json["overrides"]
    ]
    file = folder / "overrides.json"
    file.write_text(json.dumps(here))
    script = 'source "$2/env.sh" && exec "$PYTHON" -m tests.importers.under_verl "$@"'
    return run(script, root, out, file, *algorithms)


def in_project(project: Path, folder: Path, algorithms: tuple[str, str], *settings: str) -> dict[str, Any]:
    """The same by the project itself."""
    script = 'exec "$PYTHON" -m tests.importers.in_project "$@"'
    return run(script, project, project.name, folder / "out/toy_model", *algorithms, *settings)


def made(folder: Path, release: str, *options: str) -> Path:
    """A project of a release."""
    project = folder / "mine"
    assert vextract("new", project, "--verl", release, *options).code == 0
    return project


@pytest.mark.parametrize("release", EACH)
@pytest.mark.thorough
def test_one_code_both_ways(release: str, tmp_path: Path) -> None:
    project = made(tmp_path, release)
    hooks = sorted((EXAMPLE / "custom").glob("*.py"))
    for hook in hooks:
        shutil.copy(hook, project / "mine/custom" / hook.name)
    settings = (EXAMPLE / "settings.txt").read_text().split()
    algorithms = ("above_median", "")
    there = under_verl(project, release, tmp_path, algorithms, *settings)
    here = in_project(project, tmp_path, algorithms, *settings)
    for hook in hooks:
        assert (tmp_path / "out/mine/custom" / hook.name).read_bytes() == hook.read_bytes()
    assert "EnvDataset" in there["prompts"].pop("class")
    del there["rewards"]["manager"]
    for part in ("prompts", "algorithms", "rewards"):
        assert there[part] == here[part], part


@pytest.mark.parametrize("release", EACH)
def test_what_an_export_names_is_loaded_by_verl(release: str, tmp_path: Path) -> None:
    project = made(tmp_path, release, "--recipe", "multiturn")
    there = under_verl(project, release, tmp_path)
    here = in_project(project, tmp_path, ("group_rank", ""))
    assert "ProjectDataset" in there["prompts"].pop("class")
    del there["rewards"]["manager"]
    for part in ("prompts", "algorithms", "rewards"):
        assert there[part] == here[part], part
    assert there["dataclasses"]
    assert {name: there["episode"][name] for name in ("mask", "turns", "reward")} == {
        "mask": [1, 0, 0, 0, 0, 1],
        "turns": 4,
        "reward": 1.0,
    }
