"""Read the owner's code and find imports of vendored files."""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from extractor.project.lock import Lock
from extractor.project.side_files import ORPHANED
from extractor.values import readers
from extractor.values.modules import list_imports, name_module
from extractor.values.moved_modules import rename_project_path
from extractor.values.tree import FileKind

# A module or a symbol that a text names in full: `importlib.import_module("toy.vendored.protocol")`.
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+(:\w+)?")
_NOT_CODE = ("__pycache__", "node_modules", ORPHANED)
_OF_OTHERS = ("pyvenv.cfg", "conda-meta", ".git")  # a folder with one of these is an environment, or another repository


@dataclass(frozen=True)
class OwnerCode:
    """Holds an owner's Python file or notebook: hook, added or edited.

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
        """Return the owner's imports as (absolute module, name or "*")."""
        known = set(_find_imports(self.path, self.emitted or ""))
        return tuple(item for item in _find_imports(self.path, self.text) if item not in known)


def find_owner_files(project: Path, locked: Lock) -> Iterator[str]:
    """Yield files that the owner added to the generated folders."""
    known = {file.path for file in locked.files}
    for top in sorted({path.split("/")[0] for path in known if "/" in path}):
        below = readers.list_files_below(project / top, lambda folder: not folder.name.startswith((".", "__pycache__")))
        for path in below:
            relative = path.relative_to(project).as_posix()
            if path.is_file() and not path.name.startswith(".") and relative not in known:
                yield relative


def _list_code_files(project: Path) -> Iterator[str]:
    """Yield Python files and notebooks, skipping hidden and foreign folders."""
    for folder, below, files in os.walk(project):
        place = Path(folder)
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".")
            and name not in _NOT_CODE
            and not any((place / name / sign).exists() for sign in _OF_OTHERS)
        )
        paths = (place / name for name in sorted(files) if name.endswith((".py", ".ipynb")))
        yield from (path.relative_to(project).as_posix() for path in paths)


def read_owner_code(project: Path, lock: Lock, base: Mapping[str, bytes]) -> Iterator[OwnerCode]:
    """Yield hooks and the owner's added or edited Python code.

    Args:
        base: What was emitted, by path, for all but hooks.
    """
    kinds = {file.path: file.kind for file in lock.files}
    for path in dict.fromkeys((*kinds, *_list_code_files(project))):
        text = _read_text(project, path)
        if text is None:
            continue
        if kinds.get(path, FileKind.HOOK) is FileKind.HOOK:
            yield OwnerCode(path, text)
        elif text.encode() != base[path]:
            yield OwnerCode(path, text, base[path].decode("utf-8", "replace"))


def list_imported(code: Iterable[OwnerCode], lock: Lock) -> Iterator[str]:
    """Yield verl symbols ("module:name") that the owner imports from vendored files."""
    upstream = {name_module(file.path): name_module(file.upstream_path) for file in lock.files if file.upstream_path}
    for module, name in (item for file in code for item in file.imports):
        if f"{module}.{name}" in upstream:  # `from package.vendored import protocol`
            yield f"{upstream[f'{module}.{name}']}:*"
        elif module in upstream:
            yield f"{upstream[module]}:{name}"


def map_removed_to_importers(
    project: Path, lock: Lock, code: Iterable[OwnerCode], new: AbstractSet[str]
) -> dict[str, str]:
    """Map modules missing from the new tree to their first importer; moved ones are not missing.

    Args:
        new: The paths of the new tree.
    """
    gone = {
        name_module(file.path): file.path
        for file in lock.files
        if file.kind is not FileKind.HOOK
        and file.path.endswith(".py")
        and new.isdisjoint((file.path, rename_project_path(file.path, lock.options.package)))
    }
    importers: dict[str, str] = {}
    left = [(file.path, *item) for file in code for item in file.imports]
    for user, module, name in left:
        whole = f"{module}.{name}".split(".")  # what is imported, and the packages that it is in
        for path in filter(None, (gone.get(".".join(whole[:end])) for end in range(1, len(whole) + 1))):
            if path not in importers:
                importers[path] = user
                left += [(path, *item) for item in _find_imports(path, _read_text(project, path) or "")]
    return importers


def _find_imports(path: str, text: str) -> Iterator[tuple[str, str]]:
    nodes = list(ast.walk(readers.parse_python_or_nothing(text)))
    yield from ((module, name) for module, name, _ in list_imports(nodes, path))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            module, _, name = node.value.replace(":", ".").rpartition(".")
            yield module, name


def _read_text(project: Path, path: str) -> str | None:
    """Read a Python file or a notebook's code, or None."""
    if not path.endswith((".py", ".ipynb")):
        return None
    try:
        text = (project / path).read_bytes().decode("utf-8")
        if path.endswith(".py"):
            return text
        cells = [cell for cell in readers.parse_json(text)["cells"] if cell["cell_type"] == "code"]
        lines = (line for cell in cells for line in "".join(cell["source"]).split("\n"))
        return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!", "?")))  # magic and shell
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return None
