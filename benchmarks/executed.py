"""How much of the vendored code a run of a project executes, and what it never does."""

import ast
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environment import on_one_thread

# A run of the toy task that evaluates, saves, and takes two optimizer steps.
SETTINGS = (
    "data.train_batch_size=8",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "trainer.total_training_steps=2",
    "trainer.test_freq=2",
    "trainer.save_freq=2",
    "trainer.logger=[console]",
)
_QUIET = (ast.Pass, ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class Piece:
    """A function of which a run executes no line.

    Attributes:
        file: Path in the project.
        name: "Class.method", or the name of a function.
        lines: Of its text.
    """

    file: str
    name: str
    lines: int


@dataclass(frozen=True)
class Executed:
    """Holds what a run has executed.

    Attributes:
        run, total: Statements, docstrings left out.
        never: Functions that it never entered, the longest first.
    """

    run: int
    total: int
    never: tuple[Piece, ...]

    @property
    def share(self) -> float:
        """Return the share of the statements that ran."""
        return self.run / max(self.total, 1)


def execute(project: Path, files: Sequence[str], result: Path) -> Executed:
    """Train with SETTINGS and look at what ran.

    Args:
        project: Its directory.
        files: The Python files to look at, relative to it.
        result: A file to write to.
    """
    subprocess.run(
        _trace(project, files, result, SETTINGS),
        cwd=project,
        env=on_one_thread(NO_COLOR="1"),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return measure(project, _read_lines(project, files, result))


def execute_in_terminal(project: Path, files: Sequence[str], result: Path) -> Executed:
    """Train in a terminal as a person does: stopped by Ctrl-C after the first step, resumed by the same command."""
    kept = [word for word in SETTINGS if not word.startswith("trainer.logger")]
    settings = [word.replace("total_training_steps=2", "total_training_steps=3") for word in kept]
    lines: dict[str, set[int]] = {file: set() for file in files}
    for is_stopped in (True, False):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            _trace(project, files, result, settings),
            cwd=project,
            env=on_one_thread(TERM="xterm", PYTHONIOENCODING="utf-8"),
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        threading.Thread(target=_drain, args=(master,), daemon=True).start()
        while process.poll() is None:
            time.sleep(0.05)
            if is_stopped and any(_has_step(file) for file in project.glob("**/metrics.jsonl")):
                process.send_signal(signal.SIGINT)
                is_stopped = False
        for file, executed in _read_lines(project, files, result).items():
            lines[file] |= executed
    return measure(project, lines)


def _trace(project: Path, files: Sequence[str], result: Path, settings: Sequence[str]) -> list[str]:
    """Return the command that trains and writes down which lines of files it executes."""
    script = Path(__file__).with_name("traced.py")
    return [sys.executable, str(script), str(result), *_locate(project, files), "--", *settings]


def _read_lines(project: Path, files: Sequence[str], result: Path) -> dict[str, set[int]]:
    """Return the lines that such a run has executed, by file."""
    found = json.loads(result.read_text())
    return {file: set(found[path]) for file, path in zip(files, _locate(project, files), strict=True)}


def _locate(project: Path, files: Sequence[str]) -> list[str]:
    return [str((project / file).resolve()) for file in files]


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # its other end is closed
        os.close(terminal)


def _has_step(metrics: Path) -> bool:
    return '"step": 1,' in metrics.read_text(encoding="utf-8")


def measure(project: Path, lines: dict[str, set[int]]) -> Executed:
    """Set executed lines against the statements of files."""
    run = total = 0
    never: list[Piece] = []
    for file, executed in sorted(lines.items()):
        tree = ast.parse((project / file).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and not isinstance(node, _QUIET) and not _is_text(node):
                total += 1
                run += not executed.isdisjoint(_own_lines(node))
        for name, node in _functions(tree.body):
            inside = {number for part in node.body if not _is_text(part) for number in _all_lines(part)}
            if inside and executed.isdisjoint(inside):
                never.append(Piece(file, name, (node.end_lineno or node.lineno) - node.lineno + 1))
    return Executed(run, total, tuple(sorted(never, key=lambda item: (-item.lines, item.file, item.name))))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _all_lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _own_lines(node: ast.stmt) -> Iterable[int]:
    """Return the lines of a statement without those of its blocks."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(item.lineno for item in decorators)])
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return range(first, max(body[0].lineno, node.lineno + 1))
    return range(first, (node.end_lineno or node.lineno) + 1)


def _functions(
    body: Sequence[ast.stmt], above: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{above}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{above}{node.name}", node
