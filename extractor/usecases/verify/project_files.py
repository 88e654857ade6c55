"""Read the project under test once: lock and Python files."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from extractor.pipeline import merge
from extractor.pipeline.rewrite import read_dropped_methods, read_former_changes, read_named_fixes
from extractor.project import lock
from extractor.project.lock import Lock, LockedFile
from extractor.values import readers
from extractor.values.modules import name_module
from extractor.values.tree import FileKind


@dataclass(frozen=True)
class PythonFile:
    """A Python file of the project.

    Attributes:
        path: POSIX path relative to the project.
        module: Dotted name from the project's root ("myproj.vendored.algorithms.core_algos").
        kind: Who writes it.
        upstream_path: Path of the upstream file for a vendored one, else "".
        text: Its text.
        tree: The text's syntax tree.
        fixes: Named fixes in a vendored file.
        dropped: Methods that it was vendored without, "Class.method".
    """

    path: str
    module: str
    kind: FileKind
    upstream_path: str
    text: str = field(repr=False)
    tree: ast.Module = field(repr=False)
    fixes: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def upstream(self) -> str:
        """Return the dotted upstream module of a vendored file, else ""."""
        return name_module(self.upstream_path) if self.upstream_path else ""

    @property
    def is_package(self) -> bool:
        """Return True for an `__init__.py`."""
        return self.path.endswith("__init__.py")


@dataclass(frozen=True)
class ProjectFiles:
    """The lock and the parsed Python files of the project under test.

    Attributes:
        root: Its directory.
        lock: Its lock.
        files: Its Python files by dotted name, sorted; hooks and the owner's own files of the package are among them.
        broken: Files that cannot be parsed, as "path:line: why".
    """

    root: Path
    lock: Lock
    files: Mapping[str, PythonFile]
    broken: tuple[str, ...]

    @property
    def vendored(self) -> tuple[PythonFile, ...]:
        """Return the vendored files."""
        return tuple(file for file in self.files.values() if file.kind is FileKind.VENDORED)

    @property
    def fixes(self) -> tuple[str, ...]:
        """Return the named fixes in the vendored files."""
        return tuple(sorted({fix for file in self.vendored for fix in file.fixes}))


def read_project(root: Path) -> ProjectFiles:
    """Read a project.

    Raises:
        UsageError: it has no lock, or a damaged one.
    """
    locked = lock.read(root)
    known = {file.path for file in locked.files}
    added = [path for path in readers.list_python_below(root, locked.options.package) if path not in known]
    files: dict[str, PythonFile] = {}
    broken: list[str] = []
    # What the owner has added to the package counts as hooks.
    for file in (*locked.files, *(LockedFile(path, FileKind.HOOK, sha256="") for path in added)):
        path = root / file.path
        if not file.path.endswith(".py") or not path.is_file():
            continue
        try:
            text = readers.decode_python(readers.read_bytes(path))
            tree = readers.parse_python(text)
        except OSError as error:
            broken.append(f"{file.path}: {error.strerror}")
            continue
        except SyntaxError as error:
            marker = merge.find_first_conflict(readers.read_bytes(path))
            line, why = (marker, "a marker of a conflict is left") if marker else (error.lineno, error.msg)
            broken.append(f"{file.path}{f':{line}' if line else ''}: {why}")
            continue
        name = name_module(file.path)
        changes = (file.changes or read_former_changes(text)) if file.kind is FileKind.VENDORED else ()
        fixes, dropped = read_named_fixes(changes), read_dropped_methods(changes)
        files[name] = PythonFile(file.path, name, file.kind, file.upstream_path or "", text, tree, fixes, dropped)
    return ProjectFiles(root, locked, dict(sorted(files.items())), tuple(broken))
