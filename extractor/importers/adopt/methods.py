"""Methods that a project's classes are vendored without, seen from a fork."""

from __future__ import annotations

import ast
from collections.abc import Collection

from extractor.importers.adopt.findings import Copy
from extractor.importers.adopt.upstream_names import decode, restore_upstream_names
from extractor.pipeline.plan import Plan
from extractor.pipeline.rewrite.drop_statements import drop_statements
from extractor.pipeline.source import Source
from extractor.usecases.kept_methods import MethodDemand, of_code, of_edits
from extractor.values import readers
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts
from extractor.values.tree import FileKind, Tree


def drop_methods(code: str, names: Collection[str]) -> str:
    """Return the text of a class without methods of these names; that of anything else as it is."""
    if not names:
        return code
    body = readers.python(code).body
    if len(body) != 1 or not isinstance(body[0], ast.ClassDef):
        return code
    node = body[0]
    positions = [
        position
        for position, part in enumerate(node.body)
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and part.name in names
    ]
    return drop_statements(code, frozenset({0}), [node], {0: positions}).text


def find_edited(copy: Copy, source: Source) -> MethodDemand:
    """Return the methods that a fork has edited."""
    found: set[str] = set()
    for path, data in copy.files.items():
        old, new = decode(source.files[path]), decode(data)
        if path.endswith(".py") and data != source.files[path] and old is not None and new is not None:
            text = restore_upstream_names(new, copy.prefixes)
            edits = of_edits(old, text, "verl").edited
            found |= edits - _methods_of_another_day(text) if edits else edits
    return MethodDemand(edited=frozenset(found))


def _methods_of_another_day(text: str) -> frozenset[str]:
    """Return "Class.method" of the classes that upstream had as they are."""
    return frozenset(
        f"{node.name}.{part.name}"
        for node in readers.python(text).body
        if isinstance(node, ast.ClassDef) and fingerprint_statement(node) in load_upstream_parts()
        for part in node.body
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def find_demanded(plan: Plan, tree: Tree, package: str) -> MethodDemand:
    """Return what the edits that came along ask for.

    Args:
        plan: Of an adoption.
        tree: The project without edits.
        package: Its import name.
    """
    emitted = {file.path: file.data for file in tree}
    found = MethodDemand()
    for action in plan.actions:
        text = decode(action.data) if action.data is not None else None
        if not action.path.startswith(f"{package}/") or not action.path.endswith(".py") or text is None:
            continue
        if action.path not in emitted:
            found |= of_code(text, package)
        elif action.kind is not FileKind.HOOK and action.data != emitted[action.path]:
            found |= of_edits(decode(emitted[action.path]) or "", text, package)
    return found
