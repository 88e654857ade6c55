"""Convert a project's former file layout before comparing files.

The base and the project's files get today's paths, and their imports today's names. Edited functions, classes and
constants are moved to the module that has them today, in both. The merge then sees only the owner's edits.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import takewhile

from extractor.pipeline.index.syntax import find_span, replace_spans
from extractor.pipeline.merge.files import split_pieces
from extractor.pipeline.merge.pieces import Piece, Unsupported
from extractor.pipeline.plan import Action, Plan, Reason, Verdict
from extractor.project.lock import Lock, LockedFile
from extractor.usecases.upgrade.verdicts import FileOnDisk
from extractor.values import readers
from extractor.values.modules import is_package, name_module, resolve_absolute
from extractor.values.moved_modules import map_former_modules, rename_dotted_name, rename_path, rename_project_path
from extractor.values.readers import split_lines
from extractor.values.tree import FileKind, Tree

_DEFINITIONS = ("FunctionDef", "AsyncFunctionDef", "ClassDef", "Assign", "AnnAssign")
_TEXT = (".py", ".md", ".toml", ".yaml", ".yml", "Makefile")


@dataclass(frozen=True)
class Relocated:
    """A project's sides of an upgrade in today's layout.

    Attributes:
        lock, base, disk: As in `UpgradeInputs`.
        origins: Today's path of a file that has moved -> where it lies.
        renamed: Files whose text was changed here: they name modules that have moved, or code has moved.
        carried: Files that are gone -> where their edits are now; those of which nothing is left are not in the lock.
    """

    lock: Lock
    base: Mapping[str, bytes]
    disk: Mapping[str, FileOnDisk]
    origins: Mapping[str, str]
    renamed: frozenset[str] = frozenset()
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def placed(self, plan: Plan) -> Plan:
        """Translate a plan back to the layout on disk."""
        actions = [item for action in plan.actions for item in self._place_action(action)]
        for path, places in self.carried.items():
            if self.lock.file(path) is not None:
                continue  # parts of it have no place: it is parked
            note = f"your edits are in {', '.join(places)}"
            actions.append(
                Action(self.origins.get(path, path), Verdict.DELETE, FileKind.TEMPLATE, Reason.CARRIED, note=note)
            )
        return Plan(tuple(sorted(actions, key=lambda action: action.path)))

    def _place_action(self, action: Action) -> Iterator[Action]:
        here, origin = self.disk.get(action.path), self.origins.get(action.path)
        if origin is None:
            if action.verdict is Verdict.KEEP and action.path in self.renamed and here is not None:
                note = "code or modules that it names have moved"
                action = replace(action, verdict=Verdict.MERGE, reason=Reason.CARRIED, data=here.data, note=note)
            yield action
        elif action.verdict in (Verdict.DELETE, Verdict.ORPHAN):
            yield replace(action, path=origin)
        elif here is None:
            yield action
        else:
            if action.verdict is Verdict.KEEP:
                edited = action.reason is Reason.EDITED
                verdict, reason = (Verdict.MERGE, Reason.CARRIED) if edited else (Verdict.UPDATE, Reason.MOVED)
                action = replace(action, verdict=verdict, reason=reason, data=here.data)
            note = "; ".join(filter(None, (action.note, f"was {origin}")))
            yield replace(action, note=note)
            yield Action(origin, Verdict.DELETE, action.kind, Reason.MOVED, note=f"now {action.path}")


def relocate(lock: Lock, base: Mapping[str, bytes], disk: Mapping[str, FileOnDisk], new: AbstractSet[str]) -> Relocated:
    """Return the sides of an upgrade in today's layout.

    A file stays where it is if something of the owner's lies in the new place, or no plain file lies in the old one.

    Args:
        base: What was emitted, by path, for all but hooks.
        disk: What lies at the paths of the old and of the new tree.
        new: The paths of the new tree.
    """
    package = lock.options.package
    places = {file.path: file.path if file.path in new else _place(file, lock, disk, new) for file in lock.files}
    shared = {place for place, files in Counter(places.values()).items() if files > 1}  # of modules that were merged
    places = {path: place if place not in shared else path for path, place in places.items()}
    if all(path == place for path, place in places.items()):
        return Relocated(lock, base, disk, {})
    files, emitted, relocated, changed = [], {}, dict(disk), set[str]()
    for file in lock.files:
        path, place = file.path, places[file.path]
        files.append(replace(file, path=place))
        here = relocated.pop(path, None)
        if file.kind is not FileKind.HOOK:
            emitted[place] = base[path]
            if here is not None and here.plain and here.data is not None and here.data != base[path]:
                emitted[place] = rename_in_file(base[path], path, place, package)
                mine = rename_in_file(here.data, path, place, package)
                changed |= {path} if mine != here.data and path == place else set()
                here = FileOnDisk(mine)
        if here is not None:
            relocated[place] = here
    return Relocated(
        replace(lock, files=tuple(sorted(files, key=lambda file: file.path))),
        emitted,
        relocated,
        {place: path for path, place in places.items() if path != place},
        frozenset(changed),
    )


def _place(file: LockedFile, lock: Lock, disk: Mapping[str, FileOnDisk], new: AbstractSet[str]) -> str:
    """Return where a file of a lock is today."""
    if file.kind is FileKind.HOOK:
        return file.path
    place = rename_project_path(file.path, lock.options.package)
    package = f"{place.removesuffix('.py')}/__init__.py"
    place = package if package in new else place
    here = disk.get(file.path)
    taken = place in disk or (place != file.path and lock.file(place) is not None)
    return file.path if taken or (here is not None and not here.plain) else place


def rename_in_file(data: bytes, path: str, place: str, package: str) -> bytes:
    """Return a file with today's module names; binary files unchanged."""
    if not path.endswith(_TEXT):
        return data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    if path.endswith(".py"):
        mark = "\ufeff" * text.startswith("\ufeff")
        text = mark + _rewrite_imports(text.removeprefix(mark), path, place, package)
    # Modules that are named in full, "toy.utils.device", and files, "toy/utils/device.py".
    names = "|".join(re.escape(name) for name in sorted(map_former_modules(), key=len, reverse=True))
    dotted = re.compile(rf"(?<![\w.])({re.escape(package)}\.)({names})(?!\w)")
    text = dotted.sub(lambda match: match[1] + map_former_modules()[match[2]], text)
    files = re.compile(rf"(?<![\w.])({re.escape(package)}/)([\w/]+\.pyi?)(?!\w)")
    return files.sub(lambda match: match[1] + rename_path(match[2]), text).encode()


def _rewrite_imports(text: str, path: str, place: str, package: str) -> str:
    """Rewrite a module's imports for today's layout."""
    lines, spans = split_lines(text), []
    for node in ast.walk(readers.parse_python_or_nothing(text)):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = resolve_absolute(node, name_module(path), is_package=is_package(path))
        if module.partition(".")[0] == package:
            before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
            joint = "; " if before.strip() else f"\n{before}"
            old = ast.get_source_segment(text, node) or ""
            spans.append((*find_span(node), _rewrite_import(node, old, module, place, package, joint)))
    return replace_spans(text, spans)


def _rewrite_import(node: ast.ImportFrom, old: str, module: str, place: str, package: str, joint: str) -> str:
    """Return an import for today's layout, as one statement if possible."""
    by_module: dict[str, list[str]] = {}
    home = rename_dotted_name(module, package)
    for alias in node.names:
        now = rename_dotted_name(f"{module}.{alias.name}", package)
        own = now if now != f"{home}.{alias.name}" else ""  # a module that has moved by itself
        name, local = own.rpartition(".")[2] or alias.name, alias.asname or alias.name
        by_module.setdefault(own.rpartition(".")[0] or home, []).append(name if name == local else f"{name} as {local}")
    starts = {to: f"from {_write_relative(to, place) if node.level else to} import" for to in by_module}
    written = [alias.name if alias.asname is None else f"{alias.name} as {alias.asname}" for alias in node.names]
    if list(by_module.values()) == [written]:
        return re.sub(r"\Afrom\s*\S+\s+import\b", "".join(starts.values()), old, count=1)
    return joint.join(f"{starts[to]} {', '.join(names)}" for to, names in by_module.items())


def _write_relative(module: str, place: str) -> str:
    """Return a relative module name as written in a file: "..run.checkpoint"."""
    here, parts = place.split("/")[:-1], module.split(".")
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(here, parts, strict=False)))
    return "." * (len(here) - common + 1) + ".".join(parts[common:])


def follow_moved_code(layout: Relocated, new: Tree, package: str) -> Relocated:
    """Apply edits of code that moved to its new module.

    What is edited and stands nowhere any more stays where it is.

    Args:
        layout: The sides of an upgrade, each file in its place of today.
    """
    modules = {file.path: file.data for file in new if file.kind is FileKind.TEMPLATE and file.path.endswith(".py")}
    edited = {
        file.path: here.data
        for file in layout.lock.files
        if file.kind is FileKind.TEMPLATE and file.path.endswith(".py")
        for here in [layout.disk.get(file.path)]
        if here is not None and here.plain and here.data not in (None, layout.base[file.path])
    }
    if not edited:
        return layout
    today = {path: _list_definitions(path, data) for path, data in modules.items()}
    homes = _map_homes(layout, today)
    base, disk = dict(layout.base), dict(layout.disk)
    arriving: dict[str, list[tuple[str, str, str]]] = {}
    carried, gone = dict[str, tuple[str, ...]](), set[str]()
    for path, ours in edited.items():
        moving = _map_moving(path, base[path], today.get(path, {}), homes)
        sides = _split(path, base[path], ours or b"", moving, path in modules, package)
        if sides is None:
            continue
        left, arrived = sides
        for place, code in arrived.items():
            arriving.setdefault(place, []).append(code)
        if path in modules:
            base[path], disk[path] = left[0].encode(), FileOnDisk(left[1].encode())
            continue
        carried[path] = tuple(arrived)
        if left[0] == left[1]:
            gone.add(path)
            del disk[path]
    for place, codes in arriving.items():
        here = disk.get(place)
        was, mine, imports = zip(*codes, strict=True)
        base[place] = _join_data(base.get(place), was)
        disk[place] = FileOnDisk(_join_data(here.data if here is not None else None, (*mine, *imports)))
    changed = {path for path in modules if disk.get(path) != layout.disk.get(path)}
    return replace(
        layout,
        lock=replace(layout.lock, files=tuple(file for file in layout.lock.files if file.path not in gone)),
        base=base,
        disk=disk,
        renamed=layout.renamed | changed,
        carried=carried,
    )


def _map_homes(layout: Relocated, today: Mapping[str, Mapping[str, Piece]]) -> dict[str, list[str]]:
    """Map symbols to the modules that newly define them."""
    homes: dict[str, list[str]] = {}
    for path, symbols in today.items():
        here, was = layout.disk.get(path), layout.base.get(path)
        if (here is None) != (was is None) or (here is not None and (not here.plain or here.data is None)):
            continue  # its owner removed it, or has another file there
        for symbol in symbols.keys() - (_list_definitions(path, was).keys() if was is not None else set()):
            homes.setdefault(symbol, []).append(path)
    return homes


def _list_definitions(path: str, data: bytes) -> dict[str, Piece]:
    """Return a module's top-level definitions; none if it is no Python."""
    return {piece.key: piece for piece in _list_pieces(path, data) or () if piece.kind in _DEFINITIONS and piece.named}


def _list_pieces(path: str, data: bytes) -> Sequence[Piece] | None:
    try:
        return split_pieces(path, data.decode("utf-8"))
    except (UnicodeDecodeError, Unsupported):
        return None


def _map_moving(path: str, base: bytes, here: Iterable[str], homes: Mapping[str, list[str]]) -> dict[str, str]:
    """Map symbols that left a module to their new module."""
    moving = {}
    taken_in = rename_project_path(path, path.partition("/")[0])
    for symbol in sorted(_list_definitions(path, base).keys() - set(here)):
        places = [place for place in homes.get(symbol, ()) if place != path]
        if taken_in in places or len(places) == 1:
            moving[symbol] = taken_in if taken_in in places else places[0]
    return moving


def _split(
    path: str, base: bytes, ours: bytes, moving: Mapping[str, str], stays: bool, package: str
) -> tuple[tuple[str, str], dict[str, tuple[str, str, str]]] | None:
    """Take the moved edits out of both versions of a module.

    Returns:
        The rest of both versions; and for each new module the base text, the owner's text and the owner's additional
        imports. None if no moved code was edited.
    """
    was, mine = _list_pieces(path, base), _list_pieces(path, ours)
    if was is None or mine is None or not moving:
        return None
    before, after = ({piece.key: piece for piece in side} for side in (was, mine))
    edited = {key for key in moving if key not in after or after[key].core != before[key].core}
    added = {piece.key for piece in mine if piece.key not in before and not piece.names} if not stays else set()
    main = Counter(moving.values()).most_common(1)[0][0]
    homes = {key: moving[key] for key in edited} | dict.fromkeys(added, main)
    if not homes:
        return None
    arrived = {}
    for place in sorted(set(homes.values())):
        keys = {key for key, home in homes.items() if home == place}
        sides = [_list_pieces(path, rename_in_file(data, path, place, package)) or () for data in (base, ours)]
        known, named = ([name for piece in side for name in piece.names] for side in sides)
        above = "".join(f"{name}\n" for name in known)
        theirs, own = (above + "".join(piece.text for piece in side if piece.key in keys) for side in sides)
        arrived[place] = (theirs, own, "".join(f"{name}\n" for name in named if name not in known))
    left = ([item for item in side if item.key not in homes and (stays or not item.names)] for side in (was, mine))
    base_left, own_left = ("".join(item.text for item in side) for side in left)
    return (base_left, own_left), arrived


def _join_data(data: bytes | None, more: Iterable[str]) -> bytes:
    return "\n\n".join(filter(None, ((data or b"").decode("utf-8"), *more))).encode()
