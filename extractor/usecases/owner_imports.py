"""Find what the owner's code imports of the vendored files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from extractor.project.lock import Lock
from extractor.usecases.explain.ours import own_files
from extractor.values import readers
from extractor.values.modules import module_name
from extractor.values.tree import FileKind


def find_users(project: Path, lock: Lock, base: Mapping[str, bytes], new: AbstractSet[str]) -> dict[str, str]:
    """Map vendored files that the new tree lacks to the first file that imports them: the owner's, or one of those.

    Args:
        project, lock, base: As for `of_project` of kept_methods.
        new: The paths of the new tree.
    """
    gone = {module_name(file.path): file.path for file in lock.files if file.upstream_path and file.path not in new}
    found: dict[str, str] = {}
    left = list(_own_imports(project, lock, base))
    for user, module, name in left:
        for path in filter(None, (gone.get(module), gone.get(f"{module}.{name}"))):
            if path not in found:
                found[path] = user
                left += [(path, *item) for item in _imports(_text(project, path) or "", path)]
    return found


def list_imported(project: Path, lock: Lock, base: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the symbols of verl that the owner's code imports from vendored files, as "module:name"."""
    upstream = {module_name(file.path): module_name(file.upstream_path) for file in lock.files if file.upstream_path}
    for _, module, name in _own_imports(project, lock, base):
        if f"{module}.{name}" in upstream:  # `from package.vendored import protocol`
            yield f"{upstream[f'{module}.{name}']}:*"
        elif module in upstream:
            yield f"{upstream[module]}:{name}"


def _own_imports(project: Path, lock: Lock, base: Mapping[str, bytes]) -> Iterator[tuple[str, str, str]]:
    """Yield what the owner's code imports: the importing file, the module, the name."""
    locked = {file.path: file for file in lock.files}
    for path in (*locked, *own_files(project, lock)):
        text = _text(project, path)
        emitted = base.get(path, b"") if path not in locked or locked[path].kind is not FileKind.HOOK else b""
        if text is None or text.encode() == emitted:
            continue
        known = set(_imports(emitted.decode("utf-8", "replace"), path))
        yield from ((path, *item) for item in _imports(text, path) if item not in known)


def _imports(text: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield what a file imports: the module, made absolute, and the name, "*" for all of it."""
    try:
        tree = readers.python(text)
    except SyntaxError:
        return
    folders = path.removesuffix(".py").split("/")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "*") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = folders[: len(folders) - node.level] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


def _text(project: Path, path: str) -> str | None:
    """Read a Python file; None if it cannot be read."""
    if not path.endswith(".py"):
        return None
    try:
        return (project / path).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
