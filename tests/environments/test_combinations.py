"""The recipe goes with every release and every engine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments.support import Project, make_project
from tests.releases import NEWEST

OURS = ("episodes", "custom")
HOOKS = ("env_wrapper", "env_dataset", "reward_manager")


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
@pytest.mark.parametrize(
    ("release", "engine"),
    [
        (NEWEST[-1], "vllm"),
        (NEWEST[-1], "sglang"),
        pytest.param("0.6.1", "sglang", marks=pytest.mark.thorough),
        pytest.param("0.5.0", "vllm", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.usefixtures("verl")
def test_the_projects_text_is_in_order(tmp_path: Path, release: str, engine: str) -> None:
    project = make_project(release, engine, tmp_path / "project", "guess")
    for hook in HOOKS:
        text = (project.root / "guess" / "custom" / f"{hook}.py").read_text(encoding="utf-8")
        assert text.startswith("# vextract:hook")
        assert "ToyArithmeticEnv" not in text
    for path in project.root.rglob("*.py"):
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    ours = [*(f"guess/{path}" for path in OURS), "tests"]
    for check in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *check, "--no-cache", *ours]
        done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.thorough
def test_mypy_passes(episodic: Project, tmp_path: Path) -> None:
    ours = [f"episodic/{path}" for path in OURS]
    command = [sys.executable, "-m", "mypy", f"--cache-dir={tmp_path}", *ours]
    done = subprocess.run(command, cwd=episodic.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_setting_is_documented(episodic: Project) -> None:
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
    assert [name for name in episodic.config().local.env if f"local.env.{name}" not in page] == []
