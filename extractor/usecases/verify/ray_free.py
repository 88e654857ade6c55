"""Check that no name in a vendored file leads to Ray."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractor.usecases.verify.report import Check, CheckStatus, counted
from extractor.usecases.verify.scopes import Analysis
from extractor.usecases.verify.subject import PythonFile, Subject

_IMPORTERS = ("import_module", "__import__")


def check_ray_free(subject: Subject) -> Check:
    """Check every vendored file by scope analysis."""
    problems = [problem for file in subject.vendored for problem in _uses(file)]
    if problems:
        return Check("ray", CheckStatus.FAILED, f"{counted(len(problems), 'use')} of Ray", tuple(problems))
    return Check("ray", CheckStatus.OK, f"{counted(len(subject.vendored), 'vendored file')}: no name leads to Ray")


def _uses(file: PythonFile) -> Iterator[str]:
    analysis = Analysis(file.tree, file.module, is_package=file.is_package)
    for item in analysis.imports:
        if item.module.partition(".")[0] == "ray":
            yield f"{file.path}:{item.line}: imports {item.module}"
    for use in analysis.uses():
        leads = any(item.module.partition(".")[0] == "ray" for item in use.imports)
        if leads or (use.chain[0] == "ray" and not use.bound):
            yield f"{file.path}:{use.line}: uses {'.'.join(use.chain)}"
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            target = node.args[0].value
            if function in _IMPORTERS and isinstance(target, str) and target.partition(".")[0] == "ray":
                yield f"{file.path}:{node.lineno}: imports {target} by name"
