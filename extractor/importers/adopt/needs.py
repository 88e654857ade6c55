"""What a piece of a fork's code needs where it goes, and that code with its imports redirected."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from extractor.importers.adopt.differences import bound_by
from extractor.importers.adopt.segments import Segment
from extractor.importers.adopt.target_project import OWN, Line, NoPlace, Sides, TargetProject, Unit
from extractor.pipeline.index.reading import Reading
from extractor.pipeline.index.syntax import global_names
from extractor.pipeline.slicer import Target
from extractor.values import readers

_BUILTIN = frozenset(dir(builtins))


@dataclass(frozen=True)
class Work:
    """A unit that can stand in the project.

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


def work_out(target: TargetProject, sides: Sides, core: str, emitted: Segment | None) -> Work:
    """Find out what a segment of the fork needs.

    Args:
        target: The project.
        sides: The module that it belongs to.
        core: The text that is to stand in the project.
        emitted: What was emitted for the same symbol; what that names is there.

    Raises:
        NoPlace: something is missing.
    """
    tree = _parse(core)
    ours = {item.name: item.target for item in sides.kept.substitutes}
    core, inner, needs = _redirected(target, tree, core, sides.module, is_package=sides.is_package, ours=ours)
    lines: dict[str, Line] = {}
    present = Reading(_parse(emitted.core)).chains if emitted else {}
    chains = Reading(tree).chains
    for name in sorted(_names(tree, core)):
        item = sides.fork_imports.get(name)
        if name in sides.emitted_names:
            if item is None or item.module.partition(".")[0] != "verl":
                continue
            for chain in sorted(chains.get(name, set()) - present.get(name, set())):
                if chain:
                    needs |= target.attribute(item, chain[0])
        elif item is not None:
            line, more = target.resolve(sides.module, item)
            lines[line.text] = line
            needs |= more
            if item.module.partition(".")[0] == "verl":
                for chain in sorted(chains.get(name, ())):
                    if chain:
                        needs |= target.attribute(item, chain[0])
        elif name in sides.fork_by_name:
            needs.add(Unit(sides.module, sides.fork_by_name[name].key))
        elif emitted is not None and name not in present and not sides.imports_all:
            raise NoPlace(f"it needs {name}, which neither your fork nor the project defines there")
    return Work(core, tuple(lines[text] for text in sorted(lines)), inner, frozenset(needs))


def work_out_own(target: TargetProject, module: str) -> Work:
    """Find out what a file needs that upstream does not have.

    Raises:
        NoPlace: something is missing, or the project has a file of that name.
    """
    path = target.own_path(module)
    if path in target.files:
        raise NoPlace(f"the project has a {path} of its own")
    text = target.fork_text(target.own[module])
    if text is None:
        raise NoPlace(f"{target.own[module]} is not UTF-8 text")
    core, inner, needs = _redirected(target, _parse(text), text, module, is_package=path.endswith("__init__.py"))
    return Work(core, (), inner, frozenset(needs - {Unit(module, OWN)}))


def _parse(text: str) -> ast.Module:
    try:
        return readers.python(text)
    except SyntaxError as error:
        raise NoPlace(f"the result is not valid Python ({error})") from None


def _names(tree: ast.Module, core: str) -> set[str]:
    """Return the names that a segment reads from its module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = global_names(core, "fork")
        except SyntaxError as error:
            raise NoPlace(f"it is not valid Python ({error})") from None
    for annotation in Reading(tree).annotations:
        found.update(Reading(annotation).chains)
    return {name for name in found if name not in _BUILTIN and not name.startswith("__")}


def _redirected(
    target: TargetProject,
    tree: ast.Module,
    core: str,
    module: str,
    *,
    is_package: bool,
    ours: Mapping[str, Target] = MappingProxyType({}),
) -> tuple[str, tuple[Line, ...], set[Unit]]:
    """Return the text with all imports in it redirected, those of `ours` to what the project has in their place."""
    lines = core.split("\n")
    needs: set[Unit] = set()
    inner: list[Line] = []
    for node in reversed(list(_imports(tree))):
        items = bound_by(node, module, is_package=is_package)
        roots = {item.module.partition(".")[0] for item in items}
        replaced = all(item.local in ours for item in items)
        if (not replaced and not roots & {"verl", "ray", *target.copy.neighbours}) or roots == {target.package}:
            inner += [Line("", item.local, None, item.module.partition(".")[0]) for item in items]
            continue
        found = []
        for item in items:
            if replaced:
                found.append(target.line_of(ours[item.local], item.local))
                continue
            line, more = target.resolve(module, item)
            found.append(line)
            needs |= more
        inner += found
        end = node.end_lineno or node.lineno
        before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
        after = lines[end - 1].encode()[node.end_col_offset or 0 :].decode()
        separator = "; " if before.strip() else f"\n{before}"
        lines[node.lineno - 1 : end] = [before + separator.join(line.text for line in found) + after]
    return "\n".join(lines), tuple(inner), needs


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    found = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return iter(sorted(found, key=lambda node: (node.lineno, node.col_offset)))
