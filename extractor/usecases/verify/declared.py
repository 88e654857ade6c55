"""Find functions, classes and constants that upstream and a project both declare."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from extractor.pipeline.source import Source
from extractor.usecases.verify.subject import Subject
from extractor.values import readers


def declared_by_both(subject: Subject, source: Source) -> dict[str, list[str]]:
    """Return by upstream module the names, "Class.method", that both sides have; what an owner has added is not."""
    found = {}
    for file in subject.vendored:
        path = file.upstream.replace(".", "/")
        path = f"{path}/__init__.py" if file.is_package else f"{path}.py"
        if path in source.files:
            found[file.upstream] = sorted({*_names(file.tree.body)} & {*_names(readers.python(source.read(path)).body)})
    return {module: names for module, names in found.items() if names}


def _names(body: Sequence[ast.stmt], above: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{above}{node.name}"
        elif isinstance(node, ast.ClassDef):
            yield f"{above}{node.name}"
            yield from _names(node.body, f"{above}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from (f"{above}{name}" for name in names if not name.startswith("__"))
