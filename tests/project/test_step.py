"""A step as a reader of the trainer follows it in a debugger: where it stops, and how deep it is then."""

import ast
import re
from pathlib import Path

import pytest

from tests.project.running import overrides, started
from tests.project.support import PACKAGE, REPOSITORY, Configuration, Maker
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
ALGORITHMS, LOSSES = (f"{PACKAGE}/vendored/algorithms/{name}.py" for name in ("core_algos", "losses"))
MOST_FRAMES = 9


def test_no_method_of_the_engine_is_replaced(made: Maker) -> None:
    """Actor and critic are upstream's engine with methods of their own: a breakpoint stops where the text says."""
    root = made(Configuration(NEWEST[-1], features=("critic",), algorithm="ppo")).root
    engine = ast.parse(
        (root / PACKAGE / "vendored/workers/engine/fsdp/transformer_impl.py").read_text(encoding="utf-8")
    )
    methods = {node.name for node in ast.walk(engine) if isinstance(node, ast.FunctionDef)}
    for file in (root / PACKAGE / "workers").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else ()
            names = {part.attr for target in targets for part in ast.walk(target) if isinstance(part, ast.Attribute)}
            assert not names & methods, file.name


def lines_of(root: Path, path: str, name: str) -> range:
    """The statements of a function that a plain run calls."""
    for node in ast.parse((root / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return range(node.body[1].lineno, (node.end_lineno or 0) + 1)
    raise AssertionError(name)


def test_breakpoints_in_the_advantage_and_in_the_loss(project: Path) -> None:
    """They are reached in the process that the user started, few frames below `main`."""
    line = lines_of(project, ALGORITHMS, "compute_grpo_outcome_advantage")[0]
    of_loss = lines_of(project, LOSSES, "ppo_loss")[0]
    commands = [
        f"b {ALGORITHMS}:{line}",
        "c",
        "import os, threading",
        "p 'here', os.getpid(), threading.current_thread() is threading.main_thread()",
        "p 'shape', tuple(token_level_rewards.shape)",
        "where",
        f"clear {ALGORITHMS}:{line}",
        f"b {LOSSES}:{of_loss}",
        "c",
        "p 'the loss'",
        "where",
        f"clear {LOSSES}:{of_loss}",
        "c",
        "q",
    ]
    typed, output = project / "typed", project / "output"
    typed.write_text("\n".join(commands) + "\n", encoding="utf-8")
    words = ("-m", "pdb", "main.py", *overrides("trainer.total_training_steps=1"))
    process = started(project, output, *words, stdin=typed)
    process.wait(300)
    shown = output.read_text(encoding="utf-8")
    assert re.search(rf"> \S*{ALGORITHMS}\({line}\)compute_grpo_outcome_advantage\(\)", shown), shown[-3000:]
    assert f"('here', {process.pid}, True)" in shown
    assert "('shape', (32, " in shown
    stack = shown.partition("('shape'")[2]
    assert re.search(r"training/run_loop\.py\(\d+\)steps\(\)", stack)
    assert re.search(r"vendored/algorithms/trainer_functions\.py\(\d+\)compute_advantage\(\)", stack)
    assert "step 1/1" in stack
    names = re.findall(r"\(\d+\)(\w+)\(\)", stack.partition("'the loss'")[2])
    names = names[names.index("main") : names.index("ppo_loss") + 1]
    assert names[:3] == ["main", "steps", "train_step"]
    assert len(names) <= MOST_FRAMES, names


def test_the_line_in_the_readme(project: Path) -> None:
    """The README suggests a place to stop at: it must be a statement that a plain run comes by."""
    found = re.search(
        r"# b myproj/vendored/algorithms/core_algos\.py:(\d+)", (REPOSITORY / "README.md").read_text(encoding="utf-8")
    )
    line = int(found.group(1))
    assert line in lines_of(project, ALGORITHMS, "compute_grpo_outcome_advantage")
    code = compile((project / ALGORITHMS).read_text(encoding="utf-8"), ALGORITHMS, "exec")
    (function,) = [item for item in code.co_consts if getattr(item, "co_name", "") == "compute_grpo_outcome_advantage"]
    assert line in [number for _, _, number in function.co_lines()]
