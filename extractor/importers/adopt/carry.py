"""Decide which of a fork's edits the project can take."""

import ast
import builtins
import warnings
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from extractor.importers.adopt.differences import Difference
from extractor.importers.adopt.target_project import OWN, AdoptTarget, Line, NoPlace, Sides, Unit
from extractor.importers.python_text.module_imports import Name, rewrite_imports
from extractor.importers.python_text.segments import END, TOP, Segment
from extractor.pipeline import merge
from extractor.pipeline.index.reading import CodeScan
from extractor.pipeline.index.syntax import find_global_names, is_main_guard, read_attribute_chain
from extractor.pipeline.merge.statements import is_python, merge_statements
from extractor.pipeline.rewrite.drop_statements import drop_statements
from extractor.pipeline.slicer import Target
from extractor.values import readers
from extractor.values.reachable import find_reachable

DROPPED = "the project does not have this symbol: nothing that was vendored uses it"
_EXPORTS = "__all__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BUILTIN = frozenset(dir(builtins))
_LABELS = merge.Labels("fork", "upstream", "emitted")


@dataclass(frozen=True)
class Work:
    """A unit that can be carried, with its needs.

    Attributes:
        core: Its text there.
        lines: Imports that its module has to have.
        inner: Imports in it that were redirected.
        needs: Units that have to come along.
    """

    core: str
    lines: tuple[Line, ...]
    inner: tuple[Line, ...]
    needs: frozenset[Unit]


@dataclass(frozen=True)
class Carried:
    """Units to carry, and reasons against the others."""

    works: Mapping[Unit, Work]
    why: Mapping[Unit, str]


def carry(target: AdoptTarget, barred: Mapping[Unit, str]) -> Carried:
    """Decide for every difference whether it is carried."""
    works: dict[Unit, Work] = {}
    why = dict(barred)
    roots = [Unit(sides.module, item.key) for sides in target.sides.values() for item in _list_roots(sides)]
    pending = list(roots)
    while pending:
        unit = pending.pop()
        if unit in works or unit in why:
            continue
        try:
            works[unit] = _inspect_file(target, unit.module) if unit.key == OWN else _merge_segment(target, unit)
            pending += sorted(works[unit].needs)
        except NoPlace as reason:
            why[unit] = str(reason)
    while failed := {unit: lost for unit, work in works.items() if (lost := sorted(work.needs & why.keys()))}:
        for unit, lost in failed.items():
            del works[unit]
            name = lost[0].module if lost[0].key == OWN else f"{lost[0].module}:{lost[0].key}"
            why[unit] = f"it needs {name}, which has no place: {why[lost[0]]}"
    live = find_reachable((unit for unit in roots if unit in works), lambda unit: works[unit].needs)
    return Carried({unit: works[unit] for unit in sorted(live)}, why)


def explain(carried: Carried, sides: Sides, difference: Difference) -> str | None:
    """Say why a difference was not carried; None if it was."""
    unit = Unit(sides.module, difference.key)
    if unit in carried.works or unit in carried.why:
        return None if unit in carried.works else carried.why[unit]
    if difference.key == _EXPORTS:
        return "the project's file lists what it has itself"
    if difference.what == "removed":
        return "your fork removed it, and the project's other code may need it"
    if difference.what == "added":
        return "no code that came along names it"
    ours = {item.name: item.target.module for item in sides.kept.substitutes}
    instead = [ours[name] for name in (difference.old.binds if difference.old else ()) if name in ours]
    return f"the project has its own instead: {instead[0]}" if instead else DROPPED


def _list_roots(sides: Sides) -> Iterator[Difference]:
    """Yield differences that are carried even if nothing needs them."""
    for item in sides.compared.symbols:
        if item.new is None or item.key == _EXPORTS:
            continue
        if item.is_upstreams:  # what the release lacks can be chosen by its name, whoever wrote it
            wanted = item.old is None and _is_registering(sides, item.new)
        elif item.old is not None:
            wanted = item.key in sides.emitted
        else:
            node = item.new.node
            is_acting = item.new.key == END if node is None else not (item.new.is_named or is_main_guard(node))
            wanted = _is_registering(sides, item.new) or is_acting
        if wanted:
            yield item


def _is_registering(sides: Sides, segment: Segment) -> bool:
    """Return True for a definition with a decorator of verl's."""
    for decorator in getattr(segment.node, "decorator_list", ()):
        chain = read_attribute_chain(decorator.func if isinstance(decorator, ast.Call) else decorator)
        item = sides.fork_imports.get(chain[0]) if chain else None
        if chain and (chain[0] in sides.fork_by_name or (item and item.root == "verl")):
            return True
    return False


def _merge_segment(target: AdoptTarget, unit: Unit) -> Work:
    """Merge a fork's segment into the project's; find what it needs."""
    sides = target.sides[unit.module]
    found = next((item for item in sides.compared.symbols if item.key == unit.key), None)
    segment = found.new if found is not None else next(item for item in sides.compared.fork if item.key == unit.key)
    if segment is None:
        raise NoPlace("your fork removed it")
    emitted = sides.emitted.get(unit.key)
    if emitted is None:
        if segment.key == TOP:
            raise NoPlace("the project's file begins differently")
        return _find_needs(target, sides, segment.core, None)
    if united := _unite_enums(segment, emitted):
        return _find_needs(target, sides, united, emitted)
    dropped = sides.dropped.get(unit.key, frozenset())
    own = found.old.core if found is not None and found.old is not None else segment.core
    ours = drop_methods(segment.core, dropped)
    for base in [text or own for text in found.bases] if found is not None else [own]:
        merged = combine(drop_methods(base, dropped), ours, emitted.core)
        if merged is not None:
            return _find_needs(target, sides, merged, emitted)
    raise NoPlace("it contradicts what vextract changed at the same place; the project has vextract's version")


def _unite_enums(ours: Segment, theirs: Segment) -> str:
    """Return the project's enum with the fork's further members, "" if they clash."""
    sides = []
    for segment in (ours, theirs):
        node = readers.parse_python(segment.core).body[0] if isinstance(segment.node, ast.ClassDef) else None
        if not isinstance(node, ast.ClassDef) or not any("Enum" in ast.unparse(base) for base in node.bases):
            return ""
        members = list_members(node).items()
        sides.append({name: ast.get_source_segment(segment.core, part) for name, part in members})
    new, known = sides
    if any(new[name] != known[name] for name in new.keys() & known.keys()):
        return ""
    return theirs.core + "".join(f"    {text}\n" for name, text in new.items() if name not in known)


def combine(base: str, ours: str, theirs: str) -> str | None:
    """Return both sides' merged changes; None on conflict or invalid Python.

    Git takes changes of neighbouring lines for a conflict, which those of a fork and of a fix often are: each line is
    put between empty ones. Of sides that are laid out in different ways, statements are merged.
    """
    if ours in (base, theirs):
        return theirs
    mine, was, other = (
        "\n\n".join([*(line.replace("\n", "\1") for line in text.splitlines(True)), ""]).encode()
        for text in (ours, base, theirs)
    )
    merged = merge.merge_lines(was, mine, other, _LABELS)
    whole = merged.data.decode().replace("\n", "").replace("\1", "\n")
    if not merged.conflicts and is_python(whole):
        return whole
    found = merge_statements(base, ours, theirs, _LABELS, with_comments=False)
    text = found.data.decode() if found is not None and not found.conflicts else ""
    return text if text and is_python(text) else None


def _inspect_file(target: AdoptTarget, module: str) -> Work:
    """Return a fork's own file with the units it needs."""
    path = target.place_own_file(module)
    text = target.read_fork_text(target.own[module])
    if text is None:
        raise NoPlace(f"{target.own[module]} is not UTF-8 text")
    core, inner, needs = _redirect(target, text, module, {}, is_package=path.endswith("__init__.py"))
    return Work(core, (), inner, frozenset(needs - {Unit(module, OWN)}))


def _find_needs(target: AdoptTarget, sides: Sides, text: str, emitted: Segment | None) -> Work:
    """Find out what a segment needs."""
    ours = {item.name: item.target for item in sides.kept.substitutes}
    core, inner, needs = _redirect(target, text, sides.module, ours, is_package=sides.is_package)
    chains = CodeScan(_parse(text)).chains
    present = CodeScan(_parse(emitted.core)).chains if emitted else {}
    lines: dict[str, Line] = {}
    for name in sorted(_collect_names(text, core)):
        item = sides.fork_imports.get(name)
        is_there = name in sides.emitted_names
        if item is not None and not is_there:
            line, more = target.resolve(sides.module, item)
            lines[line.text] = line
            needs |= more
        if item is not None and item.root == "verl":
            for chain in sorted(chains.get(name, set()) - (present.get(name, set()) if is_there else set())):
                needs |= target.find_attribute(item, chain[0]) if chain else set()
        elif item is None and name in sides.fork_by_name:
            if not is_there or _is_asking_more(sides, name, chains.get(name, set())):
                needs.add(Unit(sides.module, sides.fork_by_name[name].key))
        elif item is None and not is_there and emitted is not None and name not in present:
            raise NoPlace(f"it needs {name}, which neither your fork nor the project defines there")
    return Work(core, tuple(lines[text] for text in sorted(lines)), inner, frozenset(needs))


def _is_asking_more(sides: Sides, name: str, chains: AbstractSet[tuple[str, ...]]) -> bool:
    """Tell whether code uses members that only the fork's class has."""
    ours = next(item.node for item in sides.emitted.values() if name in item.binds)
    lacking = set(list_members(sides.fork_by_name[name].node)) - set(list_members(ours))
    return any(chain[0] in lacking for chain in chains if chain)


def list_members(node: ast.stmt | None) -> dict[str, ast.stmt]:
    """Return what a class defines in its body."""
    found: dict[str, ast.stmt] = {}
    for part in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[part.name] = part
        elif isinstance(part, (ast.Assign, ast.AnnAssign)):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            found.update({target.id: part for target in targets if isinstance(target, ast.Name)})
    return found


def _parse(text: str) -> ast.Module:
    try:
        return readers.parse_python(text)
    except SyntaxError as error:
        raise NoPlace(f"the result is not valid Python ({error})") from None


def _collect_names(text: str, core: str) -> set[str]:
    """Return the names that a segment reads from its module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = find_global_names(core, "fork")
        except SyntaxError as error:
            raise NoPlace(f"it is not valid Python ({error})") from None
    for annotation in CodeScan(_parse(text)).annotations:
        found.update(CodeScan(annotation).chains)
    return {name for name in found if name not in _BUILTIN and not name.startswith("__")}


def _redirect(
    target: AdoptTarget, core: str, module: str, ours: Mapping[str, Target], *, is_package: bool
) -> tuple[str, tuple[Line, ...], set[Unit]]:
    """Return code with redirected imports, their lines, and the units needed."""
    needs: set[Unit] = set()
    inner: list[Line] = []

    def move(item: Name) -> tuple[str, str | None] | None:
        if item.local in ours:
            line = target.line(ours[item.local].module, ours[item.local].name, item.local)
        elif item.root in {"verl", "ray", *target.copy.neighbours} and item.root != target.package:
            line, more = target.resolve(module, item)
            needs.update(more)
        else:
            inner.append(Line((item.module, item.name), item.local, item.root))
            return None
        inner.append(line)
        return line.place

    _parse(core)
    return rewrite_imports(core, module, move, is_package=is_package), tuple(inner), needs


def drop_methods(code: str, names: Collection[str]) -> str:
    """Return a class's text without the named methods; other text unchanged."""
    node = readers.parse_python(code).body[0] if names else None
    if not isinstance(node, ast.ClassDef):
        return code
    places = [place for place, part in enumerate(node.body) if isinstance(part, _FUNCTIONS) and part.name in names]
    return drop_statements(code, frozenset({0}), [node], {0: places}).text
