"""Write edited project files and find edits that break callers."""

import ast
from collections.abc import Mapping
from dataclasses import replace
from textwrap import dedent

from extractor.importers.adopt.carry import Carried, Work, list_members
from extractor.importers.adopt.find_methods import list_parameters
from extractor.importers.adopt.target_project import OWN, AdoptTarget, Sides, Unit
from extractor.importers.python_text.segments import TOP, Segment
from extractor.pipeline.index.syntax import is_docstring, read_attribute_chain
from extractor.values import readers

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
METRICS = "verl.trainer.ppo.metric_utils"
_CALLED = {"_forward_micro_batch", "_optimizer_step"}  # of actors and critics


def assemble(target: AdoptTarget, carried: Carried) -> dict[str, bytes]:
    """Return every edited or added file, as path -> bytes."""
    files: dict[str, bytes] = {}
    for module, sides in sorted(target.sides.items()):
        works = {unit.key: work for unit, work in carried.works.items() if unit.module == module and unit.key != OWN}
        if works:
            text = _write_edited_module(sides, works)
            is_crlf = b"\r\n" in target.files[sides.path].data
            files[sides.path] = (text.replace("\n", "\r\n") if is_crlf else text).encode()
    for unit, work in carried.works.items():
        if unit.key == OWN:
            path = target.place_own_file(unit.module)
            files[path] = work.core.encode()
            folder = path.rpartition("/")[0]
            while folder and folder != target.package:
                init = f"{folder}/__init__.py"
                if init not in target.files and init not in files:
                    files[init] = b'"""Taken over from the fork, for the modules in it."""\n'
                folder = folder.rpartition("/")[0]
    return files


def find_breaking_edits(target: AdoptTarget, carried: Carried) -> dict[Unit, str]:
    """Return edits that lack arguments or members the project may use."""
    found: dict[Unit, str] = {}
    for unit, work in carried.works.items():
        emitted = target.sides[unit.module].emitted.get(unit.key) if unit.key != OWN else None
        if emitted is not None and (names := list_lacking(emitted.node, work.core)):
            found[unit] = f"it has no {', '.join(names)}, which the project's has"
        elif emitted is not None and unit.module == METRICS and _list_ways(work.core) != _list_ways(emitted.core):
            found[unit] = "only your loop gives it, or takes from it, what the project's has not"
    return found or _find_parked_arguments(target, carried)


def _list_ways(code: str) -> list[object]:
    """Return what a function that a trainer calls takes, and how many values it returns."""
    node = readers.parse_python(dedent(code)).body[0]
    if not isinstance(node, _FUNCTIONS) or not node.name.startswith(("compute_", "process_")):
        return []
    values = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
    taken = [item.arg for item in list_parameters(node)]
    return [*taken, *(len(item.elts) for item in values if isinstance(item, ast.Tuple))]


def _find_parked_arguments(target: AdoptTarget, carried: Carried) -> dict[Unit, str]:
    """Return edits that pass arguments to a parked fork version."""
    only_there = {
        (called, argument): f"{emitted.key}.{called}" if called != emitted.key else called
        for sides in target.sides.values()
        for emitted in sides.emitted.values()
        if emitted.key in sides.fork_by_name and Unit(sides.module, emitted.key) not in carried.works
        for called, argument in _find_extra_arguments(sides.fork_by_name[emitted.key].node, emitted.node)
    }
    found: dict[Unit, str] = {}
    for unit, work in carried.works.items() if only_there else ():
        for call in (node for node in ast.walk(readers.parse_python(work.core)) if isinstance(node, ast.Call)):
            for given in call.keywords:
                called = only_there.get(((read_attribute_chain(call.func) or ("",))[-1], given.arg or ""))
                if called is not None:
                    found[unit] = f"it hands {given.arg} to {called}, which does not take it"
    return found


def _find_extra_arguments(theirs: ast.stmt | None, ours: ast.stmt | None) -> list[tuple[str, str]]:
    """Return (function, argument) pairs that only the fork's version takes."""
    if isinstance(theirs, _FUNCTIONS) and isinstance(ours, _FUNCTIONS):
        return [(ours.name, item) for item in list_lacking(theirs, ast.unparse(ours))]
    if not isinstance(theirs, ast.ClassDef) or not isinstance(ours, ast.ClassDef):
        return []
    members = _list_public_members(ours)
    return [
        pair
        for name, node in _list_public_members(theirs).items()
        for pair in _find_extra_arguments(node, members.get(name))
    ]


def list_lacking(ours: ast.stmt | None, theirs: str) -> list[str]:
    """Return arguments and members that only the project's version has."""
    nodes = readers.parse_python(dedent(theirs)).body
    node = next((item for item in nodes if getattr(item, "name", None) == getattr(ours, "name", "")), None)
    if isinstance(ours, _FUNCTIONS) and isinstance(node, _FUNCTIONS):
        if any("register_" in ast.unparse(item) for item in ours.decorator_list) and not node.decorator_list:
            return ["registration"]
        taken = {item.arg for item in list_parameters(node)}
        return (
            [] if node.args.kwarg is not None else [item.arg for item in list_parameters(ours) if item.arg not in taken]
        )
    if not isinstance(ours, ast.ClassDef) or not isinstance(node, ast.ClassDef):
        return []
    own, other = _list_public_members(ours), _list_public_members(node)
    found = [f"{ours.name}.{name}" for name in own if name not in other]
    for name, member in own.items():
        if isinstance(member, _FUNCTIONS) and name in other:
            found += [f"{item} of {ours.name}.{name}" for item in list_lacking(member, ast.unparse(other[name]))]
    return found


def _list_public_members(cls: ast.ClassDef) -> dict[str, ast.stmt]:
    """Return a class's public members, and private ones that a project calls."""
    known = list_members(cls)
    return {name: node for name, node in known.items() if name[0] != "_" or name.endswith("__") or name in _CALLED}


def _write_edited_module(sides: Sides, works: Mapping[str, Work]) -> str:
    """Return a module's text with the edits and their imports."""
    segments = [
        replace(item, core=works[key].core if key in works else item.core) for key, item in sides.emitted.items()
    ]
    if segments and segments[-1].core:
        segments[-1] = replace(segments[-1], core=segments[-1].core.removesuffix("\n") + "\n")
    top = _add_imports(segments, sides, works)
    titles = {item.new.key: item.key for item in sides.compared.symbols if item.new is not None}
    order = [titles.get(item.key, item.key) for item in sides.compared.fork]
    for number, (key, segment) in enumerate(zip(order, sides.compared.fork, strict=True)):
        if key in works and key not in sides.emitted:
            place = _place_beside(segments, order[:number], top)
            lead = segment.lead or ("\n\n" if segment.is_definition else "")
            segments.insert(place, Segment(key, lead, works[key].core))
            if place + 1 < len(segments) and not segments[place + 1].lead:
                after = segments[place + 1]
                apart = after.is_definition or segment.is_definition
                segments[place + 1] = replace(after, lead="\n\n" if apart else "")
    return "".join(segment.lead + segment.core for segment in segments)


def _add_imports(segments: list[Segment], sides: Sides, works: Mapping[str, Work]) -> int:
    """Add imports that edits need; return the index behind all imports."""
    lines = sorted({(not line.outside, line.text) for work in works.values() for line in work.lines})
    new = [Segment(text, "", f"{text}\n") for _, text in lines]
    top = start = _skip_docstring(segments)
    for index, item in enumerate(segments[start:], start + 1):
        if item.is_definition:
            break
        top = index if item.is_import else top
    if new and top and not segments[top - 1].is_import:
        new[0] = replace(new[0], lead="\n")
    futures = [
        replace(item, lead="")
        for item in sides.compared.fork
        if isinstance(item.node, ast.ImportFrom) and item.node.module == "__future__" and item.key not in sides.emitted
    ]
    segments[top:top] = new
    segments[start:start] = futures
    return top + len(new) + len(futures)


def _place_beside(segments: list[Segment], before: list[str], top: int) -> int:
    """Return the index to insert a fork's segment at."""
    places = {item.key: index for index, item in enumerate(segments)}
    return next((places[key] + 1 for key in reversed(before) if places.get(key, -1) + 1 >= max(top, 1)), top)


def _skip_docstring(segments: list[Segment]) -> int:
    index = 1 if segments and segments[0].key == TOP else 0
    node = segments[index].node if index < len(segments) else None
    return index + (node is not None and is_docstring(node))
