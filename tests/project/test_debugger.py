"""A breakpoint in upstream's algorithms is reached in the process that the user started."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import environment, overrides
from tests.project.support import PACKAGE, REPOSITORY, Configuration, Made
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
FILE = f"{PACKAGE}/vendored/algorithms/core_algos.py"


@pytest.fixture
def root(made: Callable[[Configuration], Made], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made(Configuration(NEWEST[-1], "hf")).root, tmp_path / "project"))


def advantage_lines(root: Path) -> range:
    """The statements of GRPO's advantage, which a plain run calls."""
    for node in ast.parse((root / FILE).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == "compute_grpo_outcome_advantage":
            return range(node.body[1].lineno, (node.end_lineno or 0) + 1)
    raise AssertionError("no GRPO advantage")


def test_a_breakpoint_in_core_algos(root: Path) -> None:
    line = advantage_lines(root)[0]
    commands = [
        f"b {FILE}:{line}",
        "c",
        "import os, threading",
        "p 'here', os.getpid(), threading.current_thread() is threading.main_thread()",
        "p 'shape', tuple(token_level_rewards.shape)",
        "where",
        f"clear {FILE}:{line}",
        "c",
        "q",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "pdb", "main.py", *overrides("trainer.total_training_steps=1")],
        cwd=root,
        env=environment(root),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    shown, _ = process.communicate("\n".join(commands) + "\n", timeout=300)
    assert re.search(rf"> \S*{FILE}\({line}\)compute_grpo_outcome_advantage\(\)", shown), shown[-3000:]
    assert f"('here', {process.pid}, True)" in shown
    assert "('shape', (32, " in shown
    stack = shown.partition("('shape'")[2]
    assert re.search(r"training/run_loop\.py\(\d+\)steps\(\)", stack)
    assert re.search(r"vendored/algorithms/trainer_functions\.py\(\d+\)compute_advantage\(\)", stack)
    assert "step 1/1" in stack


def test_the_line_in_the_readme(root: Path) -> None:
    """The README suggests a place to stop at: it must be a statement that a plain run comes by."""
    found = re.search(
        r"# b myproj/vendored/algorithms/core_algos\.py:(\d+)", (REPOSITORY / "README.md").read_text(encoding="utf-8")
    )
    assert found is not None
    line = int(found.group(1))
    assert line in advantage_lines(root)
    code = compile((root / FILE).read_text(encoding="utf-8"), FILE, "exec")
    (function,) = [item for item in code.co_consts if getattr(item, "co_name", "") == "compute_grpo_outcome_advantage"]
    assert line in [number for _, _, number in function.co_lines()]
