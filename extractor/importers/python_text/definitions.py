"""Find what a module defines and needs, and cut the rest."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from extractor.importers.python_text.module_imports import replace_nodes
from extractor.pipeline.index import Module
from extractor.pipeline.index.syntax import find_global_names, is_main_guard, list_bound_names, read_attribute_chain
from extractor.pipeline.render.fold import drop_imports
from extractor.pipeline.rewrite.drop_statements import drop_statements
from extractor.values import readers
from extractor.values.reachable import find_reachable


def list_loaded_names(node: ast.AST) -> set[str]:
    """Return the names that code reads, without a definition's own."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return set(_list_read_names(ast.unparse(node))) - {node.name}
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


@lru_cache(maxsize=4096)
def _list_read_names(text: str) -> frozenset[str]:
    return frozenset(find_global_names(text, "text"))


@lru_cache(maxsize=256)
def map_attributes(text: str) -> Mapping[str, set[str]]:
    """Return the attributes a module reads, by dotted prefix."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(readers.parse_python_cached(text)):
        if isinstance(node, ast.Attribute) and (chain := read_attribute_chain(node.value)):
            found.setdefault(".".join(chain), set()).add(node.attr)
    return found


@lru_cache(maxsize=256)
def map_inherited(text: str) -> Mapping[str, set[str]]:
    """Return the attributes that a module's classes use, by base class."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(readers.parse_python_cached(text)):
        if isinstance(node, ast.ClassDef):
            used = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
            for base in node.bases:
                found.setdefault(ast.unparse(base), set()).update(used)
    return found


def drop_launch(text: str) -> str:
    """Return a module's text without its `if __name__ == "__main__"` block."""
    body = readers.parse_python_cached(text).body
    launches = (node for node in body if isinstance(node, ast.If) and is_main_guard(node) and not node.orelse)
    return replace_nodes(text, ((node, "") for node in launches))


def cut_needed_part(text: str, roots: Collection[str]) -> str:
    """Return the part of a module that some definitions need.

    Unnamed statements about needed names are kept: `REGISTRY.clear()` with `REGISTRY`.

    Args:
        text: Of the module. One that lacks a root is returned as it is.
        roots: What is needed.
    """
    module = Module("file", "file.py", text)
    if not all(name in module.bindings for name in roots):
        return text
    about = {name: [*indices, *module.effects_on.get(name, ())] for name, indices in module.bindings.items()}
    users = {
        name: set().union(*(list_loaded_names(module.statements[index].node) for index in indices))
        for name, indices in about.items()
    }
    kept = find_reachable(roots, lambda name: users[name] & users.keys())
    used = kept.union(*(users[name] for name in kept))
    stay = set()
    for statement in module.statements:
        if statement.binds:
            is_kept = not kept.isdisjoint(statement.binds)
        elif statement.imports:
            is_kept = True
        elif statement.effect_on is not None:
            is_kept = statement.effect_on in used
        else:
            read = list_loaded_names(statement.node) & (users.keys() | module.imports.keys())
            is_kept = not statement.effect or (bool(read) and read <= used)
        if is_kept:
            stay.add(statement.index)
    left = drop_statements(text, frozenset(stay), readers.parse_python_cached(text).body).text
    return drop_imports(left, list_unused_imports(left))


@lru_cache(maxsize=256)
def list_unused_imports(text: str) -> frozenset[str]:
    """Return top-level imported names that the module neither uses nor exports."""
    tree = readers.parse_python_cached(text)
    found = {name for node in _list_imports(tree) for name in list_bound_names(node)} - {"*"}
    texts = {item.value for item in ast.walk(tree) if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    used = list_loaded_names(tree)
    return frozenset(found - used - texts)


def _list_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield top-level imports that share no line with other statements."""
    ends = [(node.lineno, node.end_lineno or 0) for node in tree.body]
    for node in tree.body:
        is_import = isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", "") != "__future__"
        if is_import and sum(start <= (node.end_lineno or 0) and end >= node.lineno for start, end in ends) == 1:
            yield node  # type: ignore[misc]


def list_registered_by(text: str, decorator: re.Pattern[str]) -> list[str]:
    """Return the names of a module's definitions that carry a decorator."""
    return [
        node.name
        for node in readers.parse_python_or_nothing(text).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and any(decorator.match(f"@{ast.unparse(item)}") for item in node.decorator_list)
    ]


def list_required_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the arguments that a function must be given."""
    given = [*function.args.posonlyargs, *function.args.args]
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    needed = given[: len(given) - len(function.args.defaults)]
    return [item.arg for item in (*needed, *(item for item, default in named if default is None))]


def read_config_defaults(text: str) -> dict[str, Any]:
    """Return the constant defaults of dataclasses named ...Config: `actor.clip_ratio` for a field of ActorConfig."""
    tree = readers.parse_python_or_nothing(text if "@dataclass" in text else "")
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Config")]
    return {
        f"{cls.name.removesuffix('Config').lower()}.{ast.unparse(item.target)}": item.value.value
        for cls in classes
        for item in cls.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.value, ast.Constant)
    }


def map_methods(tree: ast.AST, cls: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the methods that a module's class defines, by name."""
    own = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {item.name: item for node in own for item in node.body if isinstance(item, functions)}


def drop_decorators(text: str, pattern: str) -> str:
    """Return a module's text without matching decorators at its top."""
    body = readers.parse_python_or_nothing(text).body
    found = (item for node in body for item in getattr(node, "decorator_list", ()))
    gone = (item for item in found if re.fullmatch(pattern, ast.unparse(item).rpartition(".")[2]))
    return replace_nodes(text, ((item, "") for item in gone))
