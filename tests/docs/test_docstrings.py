"""Docstrings of functions begin with a verb."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.project.support import REPOSITORY

# ruff's D401 knows the verbs; it lets these pass, and all that a property says.
NO_VERBS = {"How", "What", "Where", "Whether", "Which", "Who", "Why", "True", "False", "The", "A", "An", "Every"}
# What else templates once began with.
_OTHERS = "All Around As At Each For From In Is It Never No Not On One Only Part These This Upstream Within"
NO_VERBS_EITHER = {*_OTHERS.split(), "Decorator", "Settings", "Metrics", "Samples"}


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


def faults(top: str, pattern: str, names: set[str], *, private: bool) -> list[str]:
    """The first lines of docstrings below a directory that do not begin with a verb."""
    found, looked = [], 0
    for file in sorted((REPOSITORY / top).rglob(pattern)):
        for node, said in functions(file) if file.name.endswith((".py", ".py.jinja")) else ():
            looked += 1
            if said.split()[0] in names and (private or not node.name.startswith("_")):
                found.append(f"{file.relative_to(REPOSITORY)}:{node.lineno}: {said.splitlines()[0]}")
    assert looked > 500
    return found


def test_functions_say_what_they_do() -> None:
    """Those of projects, too, where they are public."""
    assert faults("extractor", "*.py", NO_VERBS, private=True) == []
    assert faults("templates", "__package__/**/*", NO_VERBS | NO_VERBS_EITHER, private=False) == []
