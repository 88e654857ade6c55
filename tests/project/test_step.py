"""A step as a reader of the trainer follows it: how deep it goes, and what the batch has after each phase."""

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import check_forked, overrides, started
from tests.project.support import PACKAGE, REPOSITORY, Configuration, Maker, copy_of
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
ALGORITHMS = f"{PACKAGE}/vendored/algorithms/core_algos.py"
DRIVER = Path(__file__).with_name("step_driver.py")
MOST_FRAMES = 9
WITH_CRITIC = Configuration(NEWEST[-1], features=("critic",), algorithm="ppo")
PROMPT, RESPONSE = 16, 8
# "# adv: `returns` and `advantages` (bs, R) float32": what a comment of train_step says of a phase.
PHASE = re.compile(r"^ {12}# (?P<phase>\w+): (?P<text>.*(?:\n {12}# .*)*)", re.MULTILINE)
COLUMNS = re.compile(r"(?P<names>`\w+`(?:(?:, | and )`\w+`)*) \(bs, (?P<length>P|R|P \+ R)\)")
LENGTHS = {"P": PROMPT, "R": RESPONSE, "P + R": PROMPT + RESPONSE}


@pytest.fixture(scope="module")
def seen(made: Maker, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the driver saw of a step with every phase."""
    root = copy_of(made(WITH_CRITIC), tmp_path_factory.mktemp("step"))
    settings = overrides(
        "trainer.total_training_steps=1",
        "algorithm.use_kl_in_reward=true",
        "local.recompute_old_log_probs=true",
        f"data.max_prompt_length={PROMPT}",
        f"data.max_response_length={RESPONSE}",
    )
    check_forked(root, str(DRIVER), "seen.json", *settings)
    return json.loads((root / "seen.json").read_text(encoding="utf-8"))


def test_from_main_to_the_loss(seen: Mapping[str, Any]) -> None:
    stack = seen["stack"]
    assert stack[:3] == ["main", "steps", "train_step"]
    assert stack[-1] == "ppo_loss"
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


def test_the_table_of_what_the_batch_has(made: Maker, seen: Mapping[str, Any]) -> None:
    root = made(WITH_CRITIC).root
    text = (root / PACKAGE / "training/trainer.py").read_text(encoding="utf-8")
    stated: dict[str, dict[str, tuple[int, str]]] = {}
    for phase in PHASE.finditer(text):
        said = re.sub(r"\n *# ", " ", phase["text"])
        for match in COLUMNS.finditer(said):
            kind = re.search(r"int64|float32", said[match.end() :])
            for name in re.findall(r"\w+", match["names"].replace(" and ", " ")):
                if name != "rollout_log_probs":  # those that an engine gives
                    stated.setdefault(phase["phase"], {})[name] = (LENGTHS[match["length"]], kind[0])
    # What was generated is put into the batch when the phase is over; the next one has it.
    phases = {"gen" if name == "reward" else name: columns for name, columns in seen["phases"].items()}
    assert list(stated) == [name for name in phases if name in stated]
    known: set[str] = set()
    for name in stated:
        new = {column: value for column, value in phases[name].items() if column not in known}
        rows = {shape[0] for shape, _ in new.values()}
        assert rows == {8 * 4}
        assert {column: (shape[1], kind) for column, (shape, kind) in new.items()} == stated[name]
        known |= new.keys()
    assert not {column for columns in phases.values() for column in columns} - known


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
        f"b {ALGORITHMS}:{line}",
        "c",
        "import os, threading",
        "p 'here', os.getpid(), threading.current_thread() is threading.main_thread()",
        "p 'shape', tuple(token_level_rewards.shape)",
        "where",
        f"clear {ALGORITHMS}:{line}",
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


def test_the_line_in_the_readme(project: Path) -> None:
    """The README suggests a place to stop at: it must be a statement that a plain run comes by."""
    found = re.search(
        r"# b myproj/vendored/algorithms/core_algos\.py:(\d+)", (REPOSITORY / "README.md").read_text(encoding="utf-8")
    )
    line = int(found.group(1))
    assert line in advantage_lines(project)
    code = compile((project / ALGORITHMS).read_text(encoding="utf-8"), ALGORITHMS, "exec")
    (function,) = [item for item in code.co_consts if getattr(item, "co_name", "") == "compute_grpo_outcome_advantage"]
    assert line in [number for _, _, number in function.co_lines()]
