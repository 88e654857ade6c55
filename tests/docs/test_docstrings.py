"""Docstrings of functions begin with a verb."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.project.support import REPOSITORY

# ruff's D401 knows the verbs; it lets these pass, and all that a property says.
NO_VERBS = {"How", "What", "Where", "Whether", "Which", "Who", "Why", "True", "False", "The", "A", "An", "Every"}
# What else templates once began with.
NO_VERBS_EITHER = {
    "All",
    "Around",
    "As",
    "At",
    "Each",
    "For",
    "From",
    "In",
    "Is",
    "It",
    "Never",
    "No",
    "Not",
    "On",
    "One",
}
NO_VERBS_EITHER |= {
    "Only",
    "Part",
    "These",
    "This",
    "Upstream",
    "Within",
    "Decorator",
    "Settings",
    "Metrics",
    "Samples",
}


def functions(file: Path) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Yield the functions of a file, or of what a template becomes, that have a docstring, with it; no properties."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".jinja":
        text = re.sub(r"{{.*?}}", "name", re.sub(r"{%.*?%}", "", text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(item) for item in node.decorator_list)
            if (said := ast.get_docstring(node)) and not is_property:
                yield node, said


def test_functions_say_what_they_do() -> None:
    found, looked = [], 0
    for file in sorted((REPOSITORY / "extractor").rglob("*.py")):
        for node, said in functions(file):
            looked += 1
            if said.split()[0] in NO_VERBS:
                found.append(f"{file.name}:{node.lineno}: {said.splitlines()[0]}")
    assert looked > 500
    assert found == []


def test_public_functions_of_projects_say_what_they_do() -> None:
    found, looked = [], 0
    files = (REPOSITORY / "templates").rglob("__package__/**/*")
    for file in sorted(file for file in files if file.name.endswith((".py", ".py.jinja"))):
        for node, said in functions(file):
            looked += 1
            if said.split()[0] in NO_VERBS | NO_VERBS_EITHER and not node.name.startswith("_"):
                found.append(f"{file.relative_to(REPOSITORY)}:{node.lineno}: {said.splitlines()[0]}")
    assert looked > 500
    assert found == []
