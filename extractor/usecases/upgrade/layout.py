"""Bring a project of a former layout into today's before files are compared.

What was emitted and what lies in the project get today's paths, and their imports today's names. A merge so sees the
owner's edits alone.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from extractor.pipeline.plan import Action, Plan, Reason, Verdict
from extractor.project.lock import Lock, LockedFile
from extractor.usecases.upgrade.verdicts import FileOnDisk
from extractor.values import readers
from extractor.values.modules import absolute, is_package, module_name
from extractor.values.moves import former_modules, moved_name, moved_path
from extractor.values.tree import FileKind

_TEXT = (".py", ".md", ".toml", ".yaml", ".yml", "Makefile")


@dataclass(frozen=True)
class Relocated:
    """A project's sides of an upgrade in today's layout.

    Attributes:
        lock, base, disk: As `Sides` has them.
        origins: Today's path of a file that has moved -> where it lies.
        renamed: Files whose text was changed here: they name modules that have moved.
    """

    lock: Lock
    base: Mapping[str, bytes]
    disk: Mapping[str, FileOnDisk]
    origins: Mapping[str, str]
    renamed: frozenset[str] = frozenset()

    def placed(self, plan: Plan) -> Plan:
        """Translate a plan back to the layout on disk."""
        actions = (item for action in plan.actions for item in self._placed(action))
        return Plan(tuple(sorted(actions, key=lambda action: action.path)))

    def _placed(self, action: Action) -> Iterator[Action]:
        found, origin = self.disk.get(action.path), self.origins.get(action.path)
        if origin is None:
            if action.verdict is Verdict.KEEP and action.path in self.renamed and found is not None:
                note = "modules that it names have moved"
                action = replace(action, verdict=Verdict.MERGE, reason=Reason.CARRIED, data=found.data, note=note)
            yield action
        elif action.verdict in (Verdict.DELETE, Verdict.ORPHAN):
            yield replace(action, path=origin)
        elif found is None:
            yield action
        else:
            if action.verdict is Verdict.KEEP:
                edited = action.reason is Reason.EDITED
                verdict, reason = (Verdict.MERGE, Reason.CARRIED) if edited else (Verdict.UPDATE, Reason.MOVED)
                action = replace(action, verdict=verdict, reason=reason, data=found.data)
            note = "; ".join(filter(None, (action.note, f"was {origin}")))
            yield replace(action, note=note)
            yield Action(origin, Verdict.DELETE, action.kind, Reason.MOVED, note=f"now {action.path}")


def relocate(lock: Lock, base: Mapping[str, bytes], disk: Mapping[str, FileOnDisk], new: AbstractSet[str]) -> Relocated:
    """Return the sides of an upgrade in today's layout.

    A file stays where it is if something of the owner's lies in the new place, or no plain file lies in the old one.

    Args:
        lock: The project's lock.
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
    files, emitted, found, changed = [], {}, dict(disk), set[str]()
    for file in lock.files:
        path, place = file.path, places[file.path]
        files.append(replace(file, path=place))
        here = found.pop(path, None)
        if file.kind is not FileKind.HOOK:
            emitted[place] = base[path]
            if here is not None and here.plain and here.data is not None and here.data != base[path]:
                emitted[place] = renamed(base[path], path, place, package)
                mine = renamed(here.data, path, place, package)
                changed |= {path} if mine != here.data and path == place else set()
                here = FileOnDisk(mine)
        if here is not None:
            found[place] = here
    return Relocated(
        replace(lock, files=tuple(sorted(files, key=lambda file: file.path))),
        emitted,
        found,
        {place: path for path, place in places.items() if path != place},
        frozenset(changed),
    )


def _place(file: LockedFile, lock: Lock, disk: Mapping[str, FileOnDisk], new: AbstractSet[str]) -> str:
    """Return where a file of a lock is today."""
    head = f"{lock.options.package}/"
    if file.kind is FileKind.HOOK or not file.path.startswith(head):
        return file.path
    place = head + moved_path(file.path.removeprefix(head))
    package = f"{place.removesuffix('.py')}/__init__.py"
    place = package if package in new else place
    here = disk.get(file.path)
    taken = place in disk or (place != file.path and lock.file(place) is not None)
    return file.path if taken or (here is not None and not here.plain) else place


def renamed(data: bytes, path: str, place: str, package: str) -> bytes:
    """Return a file with today's module names; binary files unchanged."""
    if not path.endswith(_TEXT):
        return data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    if path.endswith(".py"):
        mark = "\ufeff" * text.startswith("\ufeff")
        text = mark + _with_imports(text.removeprefix(mark), path, place, package)
    return _with_names(text, package).encode()


def _with_names(text: str, package: str) -> str:
    """Rename modules that are named in full, "toy.utils.device", and files, "toy/utils/device.py"."""
    names = "|".join(re.escape(name) for name in sorted(former_modules(), key=len, reverse=True))
    dotted = re.compile(rf"(?<![\w.])({re.escape(package)}\.)({names})(?!\w)")
    text = dotted.sub(lambda match: match[1] + former_modules()[match[2]], text)
    files = re.compile(rf"(?<![\w.])({re.escape(package)}/)([\w/]+\.pyi?)(?!\w)")
    return files.sub(lambda match: match[1] + moved_path(match[2]), text)


def _with_imports(text: str, path: str, place: str, package: str) -> str:
    """Rewrite a module's imports for today's layout."""
    tree = readers.python_or_nothing(text)
    lines = [line.encode() for line in text.split("\n")]
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in sorted(statements, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        module = absolute(node, module_name(path), is_package=is_package(path))
        if module.partition(".")[0] != package:
            continue
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        before, after = lines[first][: node.col_offset], lines[last - 1][node.end_col_offset or 0 :]
        whole = b"\n".join(lines[first:last])
        old = whole[len(before) : len(whole) - len(after)].decode()
        joint = "; " if before.strip() else f"\n{before.decode()}"
        new = _statement(node, old, module, place, package, joint)
        lines[first:last] = (before + new.encode() + after).split(b"\n")
    return b"\n".join(lines).decode()


def _statement(node: ast.ImportFrom, old: str, module: str, place: str, package: str, joint: str) -> str:
    """Return an import for today's layout, as one statement if possible."""
    by_module: dict[str, list[str]] = {}
    home = moved_name(module, package)
    for alias in node.names:
        now = moved_name(f"{module}.{alias.name}", package)
        own = now if now != f"{home}.{alias.name}" else ""  # a module that has moved by itself
        name, local = own.rpartition(".")[2] or alias.name, alias.asname or alias.name
        by_module.setdefault(own.rpartition(".")[0] or home, []).append(name if name == local else f"{name} as {local}")
    starts = {to: f"from {_relative(to, place) if node.level else to} import" for to in by_module}
    written = [alias.name if alias.asname is None else f"{alias.name} as {alias.asname}" for alias in node.names]
    if list(by_module.values()) == [written]:
        return re.sub(r"\Afrom\s*\S+\s+import\b", "".join(starts.values()), old, count=1)
    return joint.join(f"{starts[to]} {', '.join(names)}" for to, names in by_module.items())


def _relative(module: str, place: str) -> str:
    """Return how a file names a module of the same package: "..run.checkpoint"."""
    here = place.split("/")[:-1]
    parts = module.split(".")
    common = 0
    while common < min(len(here), len(parts)) and here[common] == parts[common]:
        common += 1
    return "." * (len(here) - common + 1) + ".".join(parts[common:])
