"""Read the owner's code, and find what it imports of the vendored files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from extractor.project.lock import Lock
from extractor.values import readers
from extractor.values.modules import list_imports, module_name
from extractor.values.tree import FileKind


@dataclass(frozen=True)
class OwnerCode:
    """A Python file of the owner's: a hook, one of their own, or an emitted one with edits.

    Attributes:
        path: POSIX path relative to the project.
        text: The file.
        emitted: What it was without the edits; None for a file that is the owner's as a whole.
    """

    path: str
    text: str
    emitted: str | None = None

    @cached_property
    def imports(self) -> tuple[tuple[str, str], ...]:
        """The module, made absolute, and the name of each import that is the owner's; "*" for a whole module."""
        known = set(_imports(self.path, self.emitted or ""))
        return tuple(item for item in _imports(self.path, self.text) if item not in known)


def own_files(project: Path, locked: Lock) -> Iterator[str]:
    """Yield the files that the owner has added to the package, the config or the tests."""
    known = {file.path for file in locked.files}
    for top in sorted({path.split("/")[0] for path in known if "/" in path}):
        below = readers.files_below(project / top, lambda folder: not folder.name.startswith((".", "__pycache__")))
        for path in below if (project / top).is_dir() else ():
            relative = path.relative_to(project).as_posix()
            if path.is_file() and not path.name.startswith(".") and relative not in known:
                yield relative


def read_owner_code(project: Path, lock: Lock, base: Mapping[str, bytes]) -> Iterator[OwnerCode]:
    """Yield a project's hooks, its owner's own files and edited files, as far as they are Python.

    Args:
        project: Its directory.
        lock: Its lock.
        base: What was emitted, by path, for all but hooks.
    """
    kinds = {file.path: file.kind for file in lock.files}
    for path in (*kinds, *own_files(project, lock)):
        text = _text(project, path)
        if text is None:
            continue
        if kinds.get(path, FileKind.HOOK) is FileKind.HOOK:
            yield OwnerCode(path, text)
        elif text.encode() != base[path]:
            yield OwnerCode(path, text, base[path].decode("utf-8", "replace"))


def list_imported(code: Iterable[OwnerCode], lock: Lock) -> Iterator[str]:
    """Yield the symbols of verl that the owner's code imports from vendored files, as "module:name"."""
    upstream = {module_name(file.path): module_name(file.upstream_path) for file in lock.files if file.upstream_path}
    for module, name in (item for file in code for item in file.imports):
        if f"{module}.{name}" in upstream:  # `from package.vendored import protocol`
            yield f"{upstream[f'{module}.{name}']}:*"
        elif module in upstream:
            yield f"{upstream[module]}:{name}"


def find_users(project: Path, lock: Lock, code: Iterable[OwnerCode], new: AbstractSet[str]) -> dict[str, str]:
    """Map vendored files that the new tree lacks to the first file that imports them: the owner's, or one of those.

    Args:
        project, lock: As for `read_owner_code`.
        code: What that gives.
        new: The paths of the new tree.
    """
    gone = {module_name(file.path): file.path for file in lock.files if file.upstream_path and file.path not in new}
    found: dict[str, str] = {}
    left = [(file.path, *item) for file in code for item in file.imports]
    for user, module, name in left:
        for path in filter(None, (gone.get(module), gone.get(f"{module}.{name}"))):
            if path not in found:
                found[path] = user
                left += [(path, *item) for item in _imports(path, _text(project, path) or "")]
    return found


def _imports(path: str, text: str) -> Iterator[tuple[str, str]]:
    nodes = ast.walk(readers.python_or_nothing(text))
    yield from ((module, name) for module, name, _ in list_imports(nodes, path))


def _text(project: Path, path: str) -> str | None:
    """Read a Python file; None if it is none, or cannot be read."""
    if not path.endswith(".py"):
        return None
    try:
        return (project / path).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
