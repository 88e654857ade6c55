"""The project's files with the edits in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from textwrap import dedent

from extractor.importers.adopt import narrower
from extractor.importers.adopt.carry import Carried
from extractor.importers.adopt.disagreements import disagreements, unfed
from extractor.importers.adopt.needs import Work
from extractor.importers.adopt.segments import TOP, Segment, join
from extractor.importers.adopt.target_project import OWN, Sides, TargetProject, Unit, is_future
from extractor.pipeline.index.syntax import bound_names
from extractor.values import readers
from extractor.values.modules import module_name
from extractor.values.reachable import reachable


def assemble(target: TargetProject, carried: Carried) -> dict[str, bytes]:
    """Return a mapping, path -> bytes of every file that gets edits, and of those of the fork's own that come along."""
    files: dict[str, bytes] = {}
    for module, sides in sorted(target.sides.items()):
        works = {unit.key: work for unit, work in carried.works.items() if unit.module == module and unit.key != OWN}
        if works:
            emitted = target.files[sides.path].data
            text = _module(sides, works)
            files[sides.path] = (text.replace("\n", "\r\n") if b"\r\n" in emitted else text).encode()
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


def broken(target: TargetProject, carried: Carried, files: Mapping[str, bytes]) -> dict[Unit, str]:
    """Return units whose file would not compile or be imported, and those that lack what the project calls."""
    found: dict[Unit, str] = {}
    modules = {module_name(path): data for path, data in _python(target, files).items()}
    graph = {name: _imported(data, name, modules) for name, data in modules.items()}
    for unit, work in carried.works.items():
        path = target.own_path(unit.module) if unit.key == OWN else target.sides[unit.module].path
        try:
            compile(readers.python(files[path]), path, "exec")  # which refuses a `return` outside of functions too
        except SyntaxError as error:
            found[unit] = f"the file that it would stand in is not valid Python ({error})"
            continue
        emitted = None if unit.key == OWN else target.sides[unit.module].emitted_by_key.get(unit.key)
        if emitted is not None and (lacking := narrower.lacking(emitted.node, work.core)):
            found[unit] = f"it has no {', '.join(lacking)}, which the project's has"
            continue
        if early := sorted(_early(readers.python(files[path]), unit.key)):
            found[unit] = f"it needs {', '.join(early)} as it is defined, which the project's file defines below it"
            continue
        if absent := sorted(_absent_members(readers.python(files[path]), unit.key)):
            found[unit] = f"it is registered as {', '.join(absent)}, which the project does not have"
            continue
        importer = module_name(path)
        for line in (*work.lines, *(work.inner if unit.key == OWN else ())):
            if line.module and line.module in graph and importer in reachable([line.module], graph.__getitem__):
                found[unit] = f"`{line.text}` would make {line.module} and {importer} import each other in a circle"
    return found or _at_odds(target, carried, files)


def _at_odds(target: TargetProject, carried: Carried, files: Mapping[str, bytes]) -> dict[Unit, str]:
    """Return units whose calls do not fit the project's functions, or that the project's calls do not fit."""
    units = {(module_name(target.sides[unit.module].path), unit.key): unit for unit in carried.works if unit.key != OWN}
    before = target.code
    after = {**before, **files}
    found: dict[Unit, str] = {}
    for item in disagreements(after):
        if item in target.disagreements:
            continue
        caller, called = units.get(item.caller), units.get(item.called)
        if caller is not None and called is None and item.is_certain:
            found[caller] = f"it {item.what}"
        elif called is not None and caller is None:
            found[called] = f"the project's {item.caller[1]} {item.what}"
    for of_rows in (False, True):
        known = {key for _, key in unfed(before, of_rows=of_rows)}
        for place, key in unfed(after, of_rows=of_rows):
            # What rows have may be of the data, unless the fork's own code puts it there.
            if place in units and key not in known and (not of_rows or key in target.copy.put_into_rows):
                found[units[place]] = f"it reads {key} from a batch, which nothing in the project puts there"
    return found | _for_parked_methods(target, carried)


def _for_parked_methods(target: TargetProject, carried: Carried) -> dict[Unit, str]:
    """Return units that hand to a method, by name, what only the fork's class takes, which did not come along."""
    only_there: dict[tuple[str, str], str] = {}
    for sides in target.sides.values():
        for emitted in sides.emitted:
            fork = sides.fork_by_name.get(emitted.key)
            if fork is not None and Unit(sides.module, emitted.key) not in carried.works:
                for argument, method in narrower.more_arguments(fork.node, emitted.core):
                    only_there[method, argument] = emitted.key
    found: dict[Unit, str] = {}
    for unit, work in carried.works.items() if only_there else ():
        for node in ast.walk(readers.python(dedent(work.core))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                for given in node.keywords:
                    cls = only_there.get((node.func.attr, given.arg or ""))
                    if cls is not None:
                        found[unit] = f"it hands {given.arg} to {cls}.{node.func.attr}, which does not take it"
    return found


def _absent_members(tree: ast.Module, name: str) -> set[str]:
    """Return the members of a module's own classes that the decorators of a definition name, and that are not there."""
    node = next((node for node in tree.body if getattr(node, "name", None) == name), None)
    plain = {item.name: item for item in tree.body if isinstance(item, ast.ClassDef)}
    found = set()
    for decorator in getattr(node, "decorator_list", ()):
        for item in ast.walk(decorator):
            if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id in plain:
                members = {name for part in plain[item.value.id].body for name in bound_names(part)}
                found |= {f"{item.value.id}.{item.attr}"} if item.attr not in members else set()
    return found


def _early(tree: ast.Module, name: str) -> set[str]:
    """Return the names that a definition of a module needs as it is run, and that the module binds only below it."""
    place = next((i for i, node in enumerate(tree.body) if getattr(node, "name", None) == name), None)
    if place is None:
        return set()
    above, below = (
        {item for node in part for item in bound_names(node)} for part in (tree.body[:place], tree.body[place:])
    )
    lazy = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    return (_loaded_at_once(tree.body[place], lazy) & below) - above - {name}


def _loaded_at_once(node: ast.AST, lazy: bool) -> set[str]:
    """Return the names that a statement loads as it is run; not what is in functions, nor in lazy annotations."""
    pending: list[ast.AST] = [node]
    found: set[str] = set()
    while pending:
        item = pending.pop()
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load):
            found.add(item.id)
        elif isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [*item.args.posonlyargs, *item.args.args, *item.args.kwonlyargs]
            pending += [*item.decorator_list, *item.args.defaults, *filter(None, item.args.kw_defaults)]
            said = [] if lazy else [item.returns, *(argument.annotation for argument in arguments)]
            pending += filter(None, said)
        elif not isinstance(item, ast.Lambda):
            pending += ast.iter_child_nodes(item)
    return found


def _module(sides: Sides, works: Mapping[str, Work]) -> str:
    segments = [
        Segment(item.key, item.lead, works[item.key].core, item.binds, item.node) if item.key in works else item
        for item in sides.emitted
    ]
    if segments and segments[-1].core and not segments[-1].core.endswith("\n"):
        last = segments[-1]
        segments[-1] = Segment(last.key, last.lead, last.core + "\n", last.binds, last.node)
    emitted = sides.emitted_by_key
    needed = {(line.module is not None, line.text) for work in works.values() for line in work.lines}
    lines = [text for _, text in sorted(needed)]
    top = _after_imports(segments)
    futures = [item for item in sides.fork if is_future(item) and item.key not in emitted]
    new = [Segment(text, "", f"{text}\n") for text in lines]
    if new and top and not segments[top - 1].is_import:
        new[0] = Segment(new[0].key, "\n", new[0].core)
    segments[top:top] = new
    top += len(new)
    start = _after_docstring(segments)
    segments[start:start] = [Segment(item.key, "", item.core) for item in futures]
    top += len(futures)
    order = [item.key for item in sides.fork]
    titles = {item.new.key: item.key for item in sides.found.symbols if item.new is not None}
    for number, segment in enumerate(sides.fork):
        key = titles.get(segment.key, segment.key)
        if key not in works or key in emitted:
            continue
        place = _beside(segments, [titles.get(name, name) for name in order[:number]], top)
        lead = segment.lead or ("\n\n" if segment.is_definition else "")
        segments.insert(place, Segment(key, lead, works[key].core))
        if place + 1 < len(segments) and not segments[place + 1].lead:
            after = segments[place + 1]
            lead = "\n\n" if after.is_definition or segment.is_definition else ""
            segments[place + 1] = Segment(after.key, lead, after.core, after.binds, after.node)
    return join(segments)


def _beside(segments: list[Segment], before: list[str], top: int) -> int:
    """After the nearest segment that stands before it in the fork, and after the imports."""
    places = {item.key: index for index, item in enumerate(segments)}
    for key in reversed(before):
        if key in places and places[key] + 1 >= top:
            return places[key] + 1
    return top


def _after_imports(segments: list[Segment]) -> int:
    last = _after_docstring(segments)
    for index, item in enumerate(segments):
        if item.is_definition:
            break
        if item.is_import:
            last = index + 1
    return last


def _after_docstring(segments: list[Segment]) -> int:
    index = 1 if segments and segments[0].key == TOP else 0
    if index < len(segments):
        node = segments[index].node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            index += 1
    return index


def _python(target: TargetProject, files: Mapping[str, bytes]) -> dict[str, bytes]:
    every = {path: file.data for path, file in target.files.items()}
    every.update(files)
    return {
        path: data for path, data in every.items() if path.startswith(f"{target.package}/") and path.endswith(".py")
    }


def _imported(data: bytes, name: str, modules: Mapping[str, bytes]) -> set[str]:
    """Modules of the project that a module imports as it is loaded."""
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
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        else:
            pending.extend(ast.iter_child_nodes(node))
    return {item for item in found if item in modules}
