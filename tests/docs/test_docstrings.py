"""Docstrings of functions begin with a verb."""

from __future__ import annotations

import ast

from tests.project.support import REPOSITORY

# ruff's D401 knows the verbs; it lets these pass, and all that a property says.
NO_VERBS = {"How", "What", "Where", "Whether", "Which", "Who", "Why", "True", "False", "The", "A", "An", "Every"}


def test_functions_say_what_they_do() -> None:
    found, looked = [], 0
    for file in sorted((REPOSITORY / "extractor").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            said = ast.get_docstring(node) or ""
            looked += bool(said)
            is_property = any("property" in ast.unparse(item) for item in node.decorator_list)
            if said and said.split()[0] in NO_VERBS and not is_property:
                found.append(f"{file.name}:{node.lineno}: {said.splitlines()[0]}")
    assert looked > 500
    assert found == []
