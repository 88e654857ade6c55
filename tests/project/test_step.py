"""A step as a reader of the trainer follows it: how deep it goes, and where a breakpoint stops."""

import ast
import json
import re
from pathlib import Path

import pytest

from tests.project.running import check_forked, overrides, started
from tests.project.support import PACKAGE, REPOSITORY, Configuration, Maker
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
ALGORITHMS = f"{PACKAGE}/vendored/algorithms/core_algos.py"
MOST_FRAMES = 9
WITH_CRITIC = Configuration(NEWEST[-1], features=("critic",), algorithm="ppo")
# Prints the functions on the way from `main` to verl's loss.
FRAMES = f"""
import json, sys, main as program
from {PACKAGE}.workers import actor
loss = actor.ppo_loss
def noting(*arguments, **settings):
    frame, names = sys._getframe(1), ["ppo_loss"]
    while frame.f_code is not program.main.__code__:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    found[:] = ["main", *reversed(names)]
    return loss(*arguments, **settings)
actor.ppo_loss, found = noting, []
assert program.main(sys.argv[1:]) == 0
print(json.dumps(found))
"""


def test_from_main_to_the_loss(project: Path) -> None:
    done = check_forked(project, "-c", FRAMES, *overrides("trainer.total_training_steps=1"))
    stack = json.loads(done.stdout.splitlines()[-1])
    assert (stack[:3], stack[-1]) == (["main", "steps", "train_step"], "ppo_loss")
    assert len(stack) <= MOST_FRAMES, stack


def test_no_method_of_the_engine_is_replaced(made: Maker) -> None:
    """Actor and critic are upstream's engine with methods of their own: a breakpoint stops where the text says."""
    root = made(WITH_CRITIC).root
    engine = ast.parse(
        (root / PACKAGE / "vendored/workers/engine/fsdp/transformer_impl.py").read_text(encoding="utf-8")
    )
    methods = {node.name for node in ast.walk(engine) if isinstance(node, ast.FunctionDef)}
    for file in (root / PACKAGE / "workers").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else ()
            names = {part.attr for target in targets for part in ast.walk(target) if isinstance(part, ast.Attribute)}
            assert not names & methods, file.name


def advantage_lines(root: Path) -> range:
    """The statements of GRPO's advantage, which a plain run calls."""
    for node in ast.parse((root / ALGORITHMS).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == "compute_grpo_outcome_advantage":
            return range(node.body[1].lineno, (node.end_lineno or 0) + 1)
    raise AssertionError("no GRPO advantage")


def test_a_breakpoint_in_core_algos(project: Path) -> None:
    """It is reached in the process that the user started."""
    line = advantage_lines(project)[0]
    commands = [
        *(f"b {ALGORITHMS}:{line}", "c", "import os, threading"),
        "p 'here', os.getpid(), threading.current_thread() is threading.main_thread()",
        "p 'shape', tuple(token_level_rewards.shape)",
        *("where", f"clear {ALGORITHMS}:{line}", "c", "q"),
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


def test_the_line_in_the_readme(project: Path) -> None:
    """The README suggests a place to stop at: it must be a statement that a plain run comes by."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"# b myproj/vendored/algorithms/core_algos\.py:(\d+)", readme)
    code = compile((project / ALGORITHMS).read_text(encoding="utf-8"), ALGORITHMS, "exec")
    (function,) = [item for item in code.co_consts if getattr(item, "co_name", "") == "compute_grpo_outcome_advantage"]
    assert int(line) in {number for _, _, number in function.co_lines()} & {*advantage_lines(project)}
