"""Deciding which of a fork's edits can stand in the project, each with all that it needs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from extractor.importers.adopt.combine import combine
from extractor.importers.adopt.differences import Difference
from extractor.importers.adopt.methods import without_methods
from extractor.importers.adopt.needs import Work, work_out, work_out_own
from extractor.importers.adopt.segments import END, TOP, Segment
from extractor.importers.adopt.target_project import OWN, NoPlace, Sides, TargetProject, Unit
from extractor.pipeline.index.syntax import attribute_chain, is_main_guard
from extractor.values.reachable import reachable

DROPPED = "the project does not have this symbol: nothing that was vendored uses it"
UNUSED = "no code that came along names it"
EXPORTS, LISTED = "__all__", "the project's file lists what it has itself"
CONFLICT = "it contradicts what vextract changed at the same place; the project has vextract's version"


@dataclass(frozen=True)
class Carried:
    """The decision.

    Attributes:
        works: What comes along, by unit.
        why: What does not, with the reason.
    """

    works: Mapping[Unit, Work]
    why: Mapping[Unit, str]


def carry(target: TargetProject, barred: Mapping[Unit, str]) -> Carried:
    """Decide on every difference in the kept modules.

    Args:
        target: The project and the fork.
        barred: Units that must not come along, with the reason.
    """
    works: dict[Unit, Work] = {}
    why: dict[Unit, str] = {}
    roots = _roots(target)
    pending = list(roots)
    while pending:
        unit = pending.pop()
        if unit in works or unit in why:
            continue
        try:
            if unit in barred:
                raise NoPlace(barred[unit])
            works[unit] = _work(target, unit)
            pending += sorted(works[unit].needs)
        except NoPlace as reason:
            why[unit] = str(reason)
    _fail_together(works, why)
    live = reachable((unit for unit in roots if unit in works), lambda unit: works[unit].needs)
    return Carried({unit: works[unit] for unit in sorted(live)}, why)


def title(unit: Unit) -> str:
    """Return what a reader would call a unit."""
    return unit.module if unit.key == OWN else f"{unit.module}:{unit.key}"


def reason(carried: Carried, sides: Sides, difference: Difference) -> str | None:
    """Say why a difference has no place; None where it has one."""
    unit = Unit(sides.module, difference.key)
    if unit in carried.works:
        return None
    if unit in carried.why:
        return carried.why[unit]
    if difference.key == EXPORTS:
        return LISTED
    if difference.what == "removed":
        return "your fork removed it, and the project's other code may need it"
    if difference.what == "added":
        return UNUSED
    ours = {item.name: item.target for item in sides.kept.substitutes}
    for name in difference.old.binds if difference.old else ():
        if name in ours:
            return f"the project has its own instead: {ours[name].module}"
    return DROPPED


def _roots(target: TargetProject) -> list[Unit]:
    """Return what comes along for its own sake: edits of emitted symbols, what registers itself, statements."""
    found = []
    for _, sides in sorted(target.sides.items()):
        for item in sides.found.symbols:
            if item.new is None or item.key == EXPORTS:
                continue
            if item.is_upstreams:  # what the release lacks can be chosen by its name, whoever wrote it
                wanted = item.old is None and _registers(sides, item.new)
            elif item.old is not None:
                wanted = item.key in sides.emitted_by_key
            else:
                wanted = _registers(sides, item.new) or _acts(item.new)
            if wanted:
                found.append(Unit(sides.module, item.key))
    return found


def _registers(sides: Sides, segment: Segment) -> bool:
    """Return True for a definition with a decorator of verl's."""
    if not isinstance(segment.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    for decorator in segment.node.decorator_list:
        chain = attribute_chain(decorator.func if isinstance(decorator, ast.Call) else decorator)
        item = sides.fork_imports.get(chain[0]) if chain else None
        if chain and (chain[0] in sides.fork_by_name or (item and item.module.partition(".")[0] == "verl")):
            return True
    return False


def _acts(segment: Segment) -> bool:
    """Return True for a statement that does something besides binding names, and for comments at the end."""
    if segment.node is None:
        return segment.key == END
    return not segment.is_named and not is_main_guard(segment.node)


def _work(target: TargetProject, unit: Unit) -> Work:
    if unit.key == OWN:
        return work_out_own(target, unit.module)
    sides = target.sides[unit.module]
    new = next((item for item in sides.found.symbols if item.key == unit.key), None)
    segment = new.new if new is not None else next(item for item in sides.fork if item.key == unit.key)
    if segment is None:
        raise NoPlace("your fork removed it")
    emitted = sides.emitted_by_key.get(unit.key)
    if emitted is None:
        if segment.key == TOP:
            raise NoPlace("the project's file begins differently")
        return work_out(target, sides, segment.core, None)
    dropped = sides.dropped.get(unit.key, frozenset())
    own = new.old.core if new is not None and new.old is not None else segment.core
    core = without_methods(segment.core, dropped)
    merged = None
    for base in (*(new.bases if new is not None else ()), own):
        before = without_methods(base, dropped)
        ways = (combine(before, core, text, finely=base == own) for text in target.emitted(sides, emitted))
        merged = next((text for text in ways if text is not None), None)
        if merged is not None:
            break
    if merged is None:
        raise NoPlace(CONFLICT)
    return work_out(target, sides, merged, emitted)


def _fail_together(works: dict[Unit, Work], why: dict[Unit, str]) -> None:
    """Take out whatever needs something that has no place."""
    while True:
        failed = {}
        for unit, work in sorted(works.items()):
            missing = sorted(need for need in work.needs if need in why)
            if missing:
                failed[unit] = f"it needs {title(missing[0])}, which has no place: {why[missing[0]]}"
        if not failed:
            return
        for unit, text in failed.items():
            del works[unit]
            why[unit] = text
