"""List the vendored functions that the compared cases ran."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from extractor.pipeline.index.syntax import list_definitions
from extractor.usecases.verify.report import Check, CheckStatus, count_noun
from extractor.usecases.verify.subject import Subject

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_coverage(subject: Subject, executed: Mapping[str, Sequence[int]]) -> Check:
    """Report which functions and lines the cases executed.

    Args:
        subject: The project.
        executed: Lines that were run by absolute path.
    """
    details = []
    files = lines = run = covered = functions = 0
    for file in subject.vendored:
        done = set(executed.get(str((subject.root / file.path).resolve()), ()))
        defined = list_definitions(file.tree.body)
        bodies = [(name, set(_list_body_lines(node))) for name, node in defined if isinstance(node, _Function)]
        every = set().union(*(body for _, body in bodies))
        if not every:
            continue
        public = [(name, body) for name, body in bodies if body and _is_public(name)]
        left = [name for name, body in public if not body & done]
        share = f"{len(every & done) / len(every):.0%}"
        line = f"{file.path}: {len(public) - len(left)} of {len(public)} functions, {share} of lines"
        details.append(line + (f"; not covered: {', '.join(left)}" if left else ""))
        files, lines, run = files + 1, lines + len(every), run + len(every & done)
        covered, functions = covered + len(public) - len(left), functions + len(public)
    summary = (
        f"the cases ran {run / max(lines, 1):.0%} of the lines of the functions in"
        f" {count_noun(files, 'vendored file')}, in {covered} of {count_noun(functions, 'public function')};"
        " the rest was not compared"
    )
    return Check("coverage", CheckStatus.REPORTED, summary, tuple(details))


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def _list_body_lines(node: _Function) -> Iterator[int]:
    """Yield lines of statements that execute; not `pass` or strings."""
    for child in ast.walk(node):
        if isinstance(child, ast.stmt) and child is not node:
            text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if not text and not isinstance(child, (ast.Pass, ast.Global, ast.Nonlocal)):
                yield child.lineno
