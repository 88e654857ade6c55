"""Keep a project's dropped methods that a fork's edits need."""

from __future__ import annotations

import ast
from collections.abc import Collection

from extractor.importers.adopt.findings import Copy
from extractor.importers.adopt.upstream_names import decode, restore_upstream_names
from extractor.pipeline.plan import Plan
from extractor.pipeline.rewrite.drop_statements import drop_statements
from extractor.pipeline.source import Source
from extractor.usecases.kept_methods import MethodDemand, read_demands, read_edit_demands
from extractor.values import readers
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts
from extractor.values.tree import FileKind, Tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def drop_methods(code: str, names: Collection[str]) -> str:
    """Return a class's text without the named methods; other text unchanged."""
    node = readers.parse_python(code).body[0] if names else None
    if not isinstance(node, ast.ClassDef):
        return code
    places = [place for place, part in enumerate(node.body) if isinstance(part, _FUNCTIONS) and part.name in names]
    return drop_statements(code, frozenset({0}), [node], {0: places}).text


def find_edited(copy: Copy, source: Source) -> MethodDemand:
    """Return methods the fork edited, outside classes that upstream once had."""
    found: set[str] = set()
    for path, data in copy.files.items():
        old, new = decode(source.files[path]), decode(data)
        if path.endswith(".py") and data != source.files[path] and old is not None and new is not None:
            text = restore_upstream_names(new, copy.prefixes)
            if edits := read_edit_demands(old, text, "verl").edited:
                classes = [node for node in readers.parse_python(text).body if isinstance(node, ast.ClassDef)]
                known = [node for node in classes if fingerprint_statement(node) in load_upstream_parts()]
                parts = [(node.name, part) for node in known for part in node.body]
                found |= edits - {f"{name}.{part.name}" for name, part in parts if isinstance(part, _FUNCTIONS)}
    return MethodDemand(edited=frozenset(found))


def find_demanded(plan: Plan, tree: Tree, package: str) -> MethodDemand:
    """Return the methods that the carried edits need.

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
            found |= read_demands(text, package)
        elif action.kind is not FileKind.HOOK and action.data != emitted[action.path]:
            found |= read_edit_demands(decode(emitted[action.path]) or "", text, package)
    return found
