"""Slice `templates/shims/` to the functions and classes that a project imports."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeGuard

from extractor.pipeline.index.syntax import list_bound_names
from extractor.pipeline.render.fold import drop_imports
from extractor.values.errors import InternalError
from extractor.values.readers import parse_python_cached, split_lines

_NAMES = r" import (\([^)]*\)|[^\n#]*)"
_WITHIN = re.compile(rf"^\s*from \.(\w+){_NAMES}", re.MULTILINE)
_EVERYTHING = "*"


def select_shims(
    shims: Mapping[str, str], package: str, code: Iterable[str], visitors: Iterable[str]
) -> dict[str, str]:
    """Return the shims that a project's code needs, sliced.

    Args:
        shims: Path to text, all that there are.
        package: The project's.
        code: Of the project.
        visitors: Code that runs in projects and is not theirs: it brings no module, and has what it imports of them.

    Raises:
        InternalError: there is no such shim.
    """
    wanted = _find_imported(code, package)
    extra = _find_imported(visitors, package)
    pending, needed = {"__init__", *wanted}, dict[str, str]()
    while pending:
        name = pending.pop()
        path = f"{package}/shims/{name}.py"
        if path not in shims:
            raise InternalError(f"no template for the shim {name}", hint="report this as a bug in vextract")
        needed[path] = slice_module(shims[path], wanted[name] | extra[name])
        for module, names in _WITHIN.findall(needed[path]):
            if not wanted[module] >= (more := _write_list(names)):
                wanted[module] |= more
                pending.add(module)
    return needed


def slice_module(text: str, wanted: AbstractSet[str]) -> str:
    """Return a module with only the statements that some names need."""
    body = parse_python_cached(text).body
    if _EVERYTHING in wanted or len(body) < 2:
        return text
    bound = [set() if _is_future(node) else set(list_bound_names(node)) for node in body]
    used = [{part.id for part in ast.walk(node) if isinstance(part, ast.Name)} for node in body]
    names, before = set(wanted), set[str]()
    while names != before:
        before = set(names)
        names |= {name for own, found in zip(bound, used, strict=True) if own & names for name in found}
    lines, kept, start, parted = split_lines(text), list[str](), 0, False
    for node, own in zip(body, bound, strict=True):
        end = node.end_lineno or node.lineno
        is_parted = not lines[start].strip()
        if not own or own & names:
            kept += ["\n", *lines[start:end]] if parted and not is_parted and _is_import(node) else lines[start:end]
            parted = False
        else:
            parted = parted or is_parted
        start = end
    imported = {name for node, own in zip(body, bound, strict=True) if _is_import(node) for name in own}
    return drop_imports("".join(kept), imported - names)


def _find_imported(texts: Iterable[str], package: str) -> defaultdict[str, set[str]]:
    """Return the names that code imports from each shim."""
    shims = rf"from (?:{re.escape(package)}|\.+)\.?shims"
    some, whole = re.compile(rf"{shims}\.(\w+){_NAMES}"), re.compile(rf"{shims}{_NAMES}")
    found = defaultdict[str, set[str]](set)
    for text in texts:
        if "shims" in text:
            for module, names in some.findall(text):
                found[module] |= _write_list(names)
            for names in whole.findall(text):
                for module in _write_list(names):
                    found[module].add(_EVERYTHING)
    return found


def _write_list(names: str) -> set[str]:
    return {name.partition(" as ")[0].strip() for name in names.strip("()\n ").split(",")} - {""}


def _is_import(node: ast.stmt) -> TypeGuard[ast.Import | ast.ImportFrom]:
    return isinstance(node, (ast.Import, ast.ImportFrom)) and not _is_future(node)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
