"""Find the new place of files that are no longer emitted."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from extractor.pipeline.generate import Generated
from extractor.project.lock import Lock
from extractor.values.manifest import Manifest
from extractor.values.options import Options
from extractor.values.tree import FileKind


@dataclass(frozen=True)
class Successor:
    """Holds what has taken the part of a file.

    Attributes:
        paths: The new files, the most important first.
        same: True where the file itself has moved: it comes from the same file of upstream's, or the same symbol is in
            it. Otherwise other code plays its role now.
    """

    paths: tuple[str, ...]
    same: bool


def find_moved_files(lock: Lock, old: Manifest | None, new: Generated) -> dict[str, Successor]:
    """Map files that are gone to those that took their part.

    Args:
        old: What was known of the lock's release; None where this vextract no longer knows it.
    """
    paths = {file.path for file in new.tree}
    by_upstream = {file.upstream_path: file.path for file in new.tree if file.kind is FileKind.VENDORED}
    known = {file.upstream_path for file in lock.files}
    before = _map_symbols(old, lock.options) if old is not None else {}
    after = _map_symbols(new.manifest, new.options)
    successors = {}
    for file in lock.files:
        if file.kind is not FileKind.VENDORED or file.path in paths or file.upstream_path is None:
            continue
        if file.upstream_path in by_upstream:
            successors[file.path] = Successor((by_upstream[file.upstream_path],), same=True)
            continue
        roles = [role for role, modules in before.items() if file.upstream_path in modules]
        names = {name for role in roles for name in before[role][file.upstream_path]}
        come = {
            path: symbols
            for role in roles
            for path, symbols in after.get(role, {}).items()
            if path in by_upstream and path not in known
        }
        moved = [path for path, symbols in come.items() if names & symbols]
        name = PurePosixPath(file.upstream_path).name
        chosen = moved[:1] or sorted(come, key=lambda path: PurePosixPath(path).name != name)
        if chosen:
            successors[file.path] = Successor(tuple(by_upstream[path] for path in chosen), bool(moved))
    return successors


def _map_symbols(manifest: Manifest, options: Options) -> Mapping[str, Mapping[str, set[str]]]:
    """Map roles (without engine) to upstream paths and their symbols."""
    roles: dict[str, dict[str, set[str]]] = {}
    for role in manifest.list_active_roles(options):
        modules = roles.setdefault(role.name.removesuffix(f"_{role.engine}"), {})
        for symbol in (*role.symbols, *role.modules):
            module, _, name = symbol.partition(":")
            for path in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
                modules.setdefault(path, set()).update({name} - {"", "*"})
    return roles
