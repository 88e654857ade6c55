"""Import every vendored module with the required packages only."""

from __future__ import annotations

import ast
import sys
import tempfile
from pathlib import Path

from extractor.usecases.verify import interpreter, requirements
from extractor.usecases.verify.report import Check, CheckStatus, count_noun
from extractor.usecases.verify.subject import Subject
from extractor.values.errors import CheckFailed
from extractor.values.modules import list_imports

TIMEOUT = 600.0


def check_importable(subject: Subject, python: str) -> Check:
    """Import all vendored modules without Ray, verl and undeclared packages."""
    modules = [file.module for file in subject.vendored]
    required = {requirements.import_name(name) for name in requirements.read_declared(subject.root)}
    blocked = sorted(_list_imported(subject) - required - sys.stdlib_module_names - {"ray", "verl"})
    job = {"root": str(subject.root.resolve()), "modules": modules, "blocked": blocked}
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        try:
            result = interpreter.finish(interpreter.start(python, "imports", job, Path(folder)), TIMEOUT)
        except CheckFailed as error:
            summary = f"the import check {error.message}"
            return Check("importable", CheckStatus.FAILED, summary, tuple(error.hint.splitlines()))
    problems = [f"{module}: {' '.join(error.split())}" for module, error in sorted(result["errors"].items())]
    problems += [f"{name} was imported all the same" for name in result["leaked"]]
    if problems:
        summary = f"{len(result['errors'])} of {count_noun(len(modules), 'vendored module')} cannot be imported"
        absent = ", ".join(sorted(required & set(result["missing"])))
        if absent:
            problems.append(f"hint: install the project's requirements: this Python lacks {absent}")
        return Check("importable", CheckStatus.FAILED, summary, tuple(problems))
    imported = f"{count_noun(len(modules), 'vendored module')} imported without Ray, verl and what is not required"
    details = (f"kept from being imported: {', '.join(blocked)}",) if blocked else ()
    return Check("importable", CheckStatus.OK, imported, details)


def _list_imported(subject: Subject) -> set[str]:
    """Return top-level packages that vendored files import, except local ones."""
    modules = (item[0] for file in subject.vendored for item in list_imports(ast.walk(file.tree), file.path))
    found = {module.partition(".")[0] for module in modules}
    return {name for name in found if not any((subject.root / path).exists() for path in (name, f"{name}.py"))}
