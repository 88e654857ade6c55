"""The project's files with the edits in them, and the edits that these files could not be loaded with."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace

from extractor.importers.adopt.carry import Carried, Work
from extractor.importers.adopt.mismatches import find_mismatches, list_extra_arguments, list_lacking
from extractor.importers.adopt.segments import TOP, Segment, join
from extractor.importers.adopt.target_project import OWN, AdoptTarget, Sides, Unit
from extractor.values import readers
from extractor.values.modules import module_name
from extractor.values.reachable import reachable


def assemble(target: AdoptTarget, carried: Carried) -> dict[str, bytes]:
    """Return a mapping, path -> bytes of every file that gets edits, and of the fork's own that come along."""
    files: dict[str, bytes] = {}
    for module, sides in sorted(target.sides.items()):
        works = {unit.key: work for unit, work in carried.works.items() if unit.module == module and unit.key != OWN}
        if works:
            text = _edited_module(sides, works)
            is_crlf = b"\r\n" in target.files[sides.path].data
            files[sides.path] = (text.replace("\n", "\r\n") if is_crlf else text).encode()
    for unit, work in carried.works.items():
        if unit.key == OWN:
            path = target.own_path(unit.module)
            files[path] = work.core.encode()
            folder = path.rpartition("/")[0]
            while folder and folder != target.package:
                init = f"{folder}/__init__.py"
                if init not in target.files and init not in files:
                    files[init] = b'"""Taken over from the fork, for the modules in it."""\n'
                folder = folder.rpartition("/")[0]
    return files


def find_broken(target: AdoptTarget, carried: Carried, files: Mapping[str, bytes]) -> dict[Unit, str]:
    """Return units whose file would not compile or be imported, and those that do not fit the project's calls."""
    found: dict[Unit, str] = {}
    code = {**{path: file.data for path, file in target.files.items()}, **files}
    inside = [path for path in code if path.startswith(f"{target.package}/") and path.endswith(".py")]
    modules = {module_name(path): code[path] for path in inside}
    graph = {name: _imported(data, name, modules) for name, data in modules.items()}
    for unit, work in carried.works.items():
        path = target.own_path(unit.module) if unit.key == OWN else target.sides[unit.module].path
        try:
            compile(readers.python(files[path]), path, "exec")  # which refuses a `return` outside of functions too
        except SyntaxError as error:
            found[unit] = f"the file that it would stand in is not valid Python ({error})"
            continue
        emitted = None if unit.key == OWN else target.sides[unit.module].emitted_by_key.get(unit.key)
        if emitted is not None and (names := list_lacking(emitted.node, work.core)):
            found[unit] = f"it has no {', '.join(names)}, which the project's has"
            continue
        importer = module_name(path)
        for line in (*work.lines, *(work.inner if unit.key == OWN else ())):
            if line.module and line.module in graph and importer in reachable([line.module], graph.__getitem__):
                found[unit] = f"`{line.text}` would make {line.module} and {importer} import each other in a circle"
    return found or _mismatched(target, carried, files)


def _mismatched(target: AdoptTarget, carried: Carried, files: Mapping[str, bytes]) -> dict[Unit, str]:
    """Return units whose calls do not fit the project's functions, or that the project's calls do not fit."""
    units = {(module_name(target.sides[unit.module].path), unit.key): unit for unit in carried.works if unit.key != OWN}
    found: dict[Unit, str] = {}
    for item in find_mismatches({**target.code, **files}):
        caller, called = units.get(item.caller), units.get(item.called)
        if item in target.mismatches or (caller is None) is (called is None):
            continue
        if caller is not None:
            found[caller] = f"it {item.what}"
        elif called is not None:
            found[called] = f"the project's {item.caller[1]} {item.what}"
    return found | _calling_parked_methods(target, carried)


def _calling_parked_methods(target: AdoptTarget, carried: Carried) -> dict[Unit, str]:
    """Return units that hand to a method, by name, what only the fork's class takes, which did not come along."""
    only_there = {
        (method, argument): emitted.key
        for sides in target.sides.values()
        for emitted in sides.emitted
        if emitted.key in sides.fork_by_name and Unit(sides.module, emitted.key) not in carried.works
        for argument, method in list_extra_arguments(sides.fork_by_name[emitted.key].node, emitted.node)
    }
    found: dict[Unit, str] = {}
    for unit, work in carried.works.items() if only_there else ():
        for node in ast.walk(readers.python(work.core)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                for given in node.keywords:
                    cls = only_there.get((node.func.attr, given.arg or ""))
                    if cls is not None:
                        found[unit] = f"it hands {given.arg} to {cls}.{node.func.attr}, which does not take it"
    return found


def _edited_module(sides: Sides, works: Mapping[str, Work]) -> str:
    """Return the text of a module with edited, added and imported names in it."""
    segments = [
        replace(item, core=works[item.key].core) if item.key in works else item  # edited
        for item in sides.emitted
    ]
    if segments and segments[-1].core and not segments[-1].core.endswith("\n"):
        segments[-1] = replace(segments[-1], core=segments[-1].core + "\n")
    top = _add_imports(segments, sides, works)
    titles = {item.new.key: item.key for item in sides.compared.symbols if item.new is not None}
    order = [titles.get(item.key, item.key) for item in sides.fork]
    for number, (key, segment) in enumerate(zip(order, sides.fork, strict=True)):
        if key in works and key not in sides.emitted_by_key:
            place = _place_beside(segments, order[:number], top)
            lead = segment.lead or ("\n\n" if segment.is_definition else "")
            segments.insert(place, Segment(key, lead, works[key].core))
            if place + 1 < len(segments) and not segments[place + 1].lead:
                after = segments[place + 1]
                apart = after.is_definition or segment.is_definition
                segments[place + 1] = replace(after, lead="\n\n" if apart else "")
    return join(segments)


def _add_imports(segments: list[Segment], sides: Sides, works: Mapping[str, Work]) -> int:
    """Add the imports that edits need; return the place behind all imports."""
    lines = sorted({(line.module is not None, line.text) for work in works.values() for line in work.lines})
    new = [Segment(text, "", f"{text}\n") for _, text in lines]
    top = start = _after_docstring(segments)
    for index, item in enumerate(segments[start:], start + 1):
        if item.is_definition:
            break
        top = index if item.is_import else top
    if new and top and not segments[top - 1].is_import:
        new[0] = replace(new[0], lead="\n")
    futures = [
        Segment(item.key, "", item.core)
        for item in sides.fork
        if item.key not in sides.emitted_by_key
        and isinstance(item.node, ast.ImportFrom)
        and item.node.module == "__future__"
    ]
    segments[top:top] = new
    start = _after_docstring(segments)
    segments[start:start] = futures
    return top + len(new) + len(futures)


def _place_beside(segments: list[Segment], before: list[str], top: int) -> int:
    """Return the place after the nearest segment that stands before it in the fork, and after the imports."""
    places = {item.key: index for index, item in enumerate(segments)}
    return next((places[key] + 1 for key in reversed(before) if places.get(key, -1) + 1 >= max(top, 1)), top)


def _after_docstring(segments: list[Segment]) -> int:
    index = 1 if segments and segments[0].key == TOP else 0
    node = segments[index].node if index < len(segments) else None
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return index + is_text


def _imported(data: bytes, name: str, modules: Mapping[str, bytes]) -> set[str]:
    """Return the modules of the project that a module imports as it is loaded."""
    package = name.partition(".")[0]
    if not re.search(rb"^[ \t]*(?:from|import)[ \t]+(?:\.|%b\b)" % package.encode(), data, re.MULTILINE):
        return set()
    found: set[str] = set()
    try:
        pending: list[ast.AST] = [readers.python(data)]
    except SyntaxError:
        return set()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            pending.extend(ast.iter_child_nodes(node))
    return {item for item in found if item in modules}
