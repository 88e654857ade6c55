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
from tests.importers.test_easyr1 import script
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
    project: Path, release: str, folder: Path, algorithms: tuple[str, str], *settings: str
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
    command = 'source "$2/env.sh" && exec "$PYTHON" -m tests.importers.under_verl "$@"'
    there = run(command, root, out, folder / "overrides.json", *algorithms)
    command = 'exec "$PYTHON" -m tests.importers.in_project "$@"'
    here = run(command, project, project.name, out / "toy_model", *algorithms, *settings)
    classes = there["rewards"].pop("manager") + there["prompts"].pop("class")
    for part in ("prompts", "algorithms", "rewards"):
        assert there[part] == here[part], part
    return there, classes


@pytest.mark.parametrize("release", EACH)
def test_what_an_export_names_is_loaded_by_verl(release: str, tmp_path: Path) -> None:
    project = make(tmp_path, release, "--recipe", "multiturn")
    there, classes = both_ways(project, release, tmp_path, ("group_rank", ""))
    assert "ProjectDataset" in classes
    assert there["dataclasses"]
    episode = {"mask": [1, 0, 0, 0, 0, 1], "turns": 4, "reward": 1.0}
    assert {name: there["episode"][name] for name in episode} == episode


@pytest.mark.thorough
@pytest.mark.parametrize("release", KINDS)
def test_one_code_both_ways(release: str, tmp_path: Path) -> None:
    project = make(tmp_path, release)
    hooks = sorted((EXAMPLE / "custom").glob("*.py"))
    for hook in hooks:
        shutil.copy(hook, project / "mine/custom" / hook.name)
    settings = (EXAMPLE / "settings.txt").read_text().split()
    _, classes = both_ways(project, release, tmp_path, ("above_median", ""), *settings)
    assert "EnvDataset" in classes
    for hook in hooks:
        assert (tmp_path / "out/mine/custom" / hook.name).read_bytes() == hook.read_bytes()


MANAGER = """from ..rewards.manager import TextRewardManager

try:
    from ..vendored.workers.reward_manager.registry import register
except ImportError:
    from verl.workers.reward_manager.registry import register


@register("by_width")
class ByWidth(TextRewardManager):
    score = staticmethod(lambda data_source, solution_str, ground_truth, extra_info=None, width=1: float(width))

    def _arguments(self, data, texts):
        width = data.batch["prompts"].shape[-1]
        return [{**arguments, "width": width} for arguments in super()._arguments(data, texts)]
"""


@pytest.mark.thorough
@pytest.mark.parametrize("release", KINDS)
def test_a_manager_under_a_name_of_its_own(release: str, tmp_path: Path) -> None:
    project = make(tmp_path, release)
    hooks = (project / "mine/custom/__init__.py").read_text() + "from . import width  # noqa: F401\n"
    put(project / "mine/custom", {"width.py": MANAGER, "__init__.py": hooks})
    key = "reward.reward_manager.name" if release == NEWEST[-1] else "reward_model.reward_manager"
    there, classes = both_ways(project, release, tmp_path, ("", ""), f"{key}=by_width")
    assert "ProjectRewardManager" in classes
    assert there["rewards"]["scores"] == [3.0] * 4


@pytest.mark.thorough
@pytest.mark.parametrize("release", KINDS)
def test_a_run_of_easyr1(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "data.format_prompt=./own.jinja data.answer_key=result data.prompt_key=problem"
    launch = script(tmp_path / "theirs", words)
    put(tmp_path, {"theirs/own.jinja": "{{ content | trim }} Think.\n"})
    rows = put(tmp_path, {"rows.jsonl": '{"problem": "37=", "result": 48}\n' * 3}) / "rows.jsonl"
    project = make(tmp_path, release, "--from-verl-run", launch)
    monkeypatch.chdir(project)
    settings = [f"data.{split}_files={rows}" for split in ("train", "val")] + ["actor_rollout_ref.model.path=null"]
    there, classes = both_ways(project, release, tmp_path, ("", ""), *settings)
    assert {"ProjectRewardManager", "EasyR1Prompts"} <= {*classes}
    assert there["rewards"]["scores"] == [0.5, 0.5, 0.5, 0.0]  # by how long they are
    assert there["prompts"]["ground_truth"] == ["48"] * 3
