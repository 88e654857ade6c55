"""List the vendored functions that the compared cases ran."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from extractor.usecases.verify.report import Check, CheckStatus, counted
from extractor.usecases.verify.subject import PythonFile, Subject


@dataclass(frozen=True)
class FileCoverage:
    """One vendored file.

    Attributes:
        path: Relative to the project.
        covered: Public functions and methods of which a case ran at least one line.
        uncovered: The others.
        lines: Lines of all function bodies.
        run: Those that a case ran.
    """

    path: str
    covered: tuple[str, ...]
    uncovered: tuple[str, ...]
    lines: int
    run: int


def measure(subject: Subject, executed: Mapping[str, Sequence[int]]) -> tuple[FileCoverage, ...]:
    """Set the lines that were run against the functions of each vendored file; files without functions are left out.

    Args:
        subject: The project.
        executed: Lines by absolute path.
    """
    found = []
    for file in subject.vendored:
        lines = set(executed.get(str((subject.root / file.path).resolve()), ()))
        item = _file(file, lines)
        if item.lines:
            found.append(item)
    return tuple(found)


def check_coverage(files: Sequence[FileCoverage]) -> Check:
    """Return what the cases have left out, for whoever wants to rely on the comparison."""
    covered, uncovered = sum(len(file.covered) for file in files), sum(len(file.uncovered) for file in files)
    lines, run = sum(file.lines for file in files), sum(file.run for file in files)
    summary = (
        f"the cases ran {run / max(lines, 1):.0%} of the lines of the functions in"
        f" {counted(len(files), 'vendored file')}, in {covered} of {counted(covered + uncovered, 'public function')};"
        " the rest was not compared"
    )
    details = []
    for file in files:
        total = len(file.covered) + len(file.uncovered)
        line = f"{file.path}: {len(file.covered)} of {total} functions, {run_share(file)} of lines"
        details.append(line + (f"; not covered: {', '.join(file.uncovered)}" if file.uncovered else ""))
    return Check("coverage", CheckStatus.REPORTED, summary, tuple(details))


def run_share(file: FileCoverage) -> str:
    """Write "93%"."""
    return f"{file.run / max(file.lines, 1):.0%}"


def _file(file: PythonFile, executed: set[int]) -> FileCoverage:
    covered: list[str] = []
    uncovered: list[str] = []
    every: set[int] = set()
    for name, node in _functions(file.tree):
        body = set(_body_lines(node))
        every |= body
        public = not any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
        if public and body:
            (covered if body & executed else uncovered).append(name)
    return FileCoverage(file.path, tuple(covered), tuple(uncovered), len(every), len(every & executed))


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{statement.name}.{inner.name}", inner


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """First lines of the statements that do something; `pass` and texts do not."""
    for child in ast.walk(node):
        if isinstance(child, ast.stmt) and child is not node:
            text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if not text and not isinstance(child, (ast.Pass, ast.Global, ast.Nonlocal)):
                yield child.lineno


def traced_files(subject: Subject) -> list[str]:
    """Return the absolute paths of the vendored files, as Python will name them."""
    return [str(Path(subject.root / file.path).resolve()) for file in subject.vendored]
