"""Where the part of a file that is emitted no longer has gone."""

from __future__ import annotations

from extractor.lock import Lock
from extractor.manifest import Manifest
from extractor.options import Options
from extractor.tree import FileKind, Tree


def successors(lock: Lock, old: Manifest | None, new: Tree, options: Options, manifest: Manifest) -> dict[str, str]:
    """Path of a file that the new tree does not have -> path of the file that has taken its part.

    That is the file that comes from the same one of upstream's; or else the first file that has come to the same role.

    Args:
        lock: The project's lock.
        old: What was known of its release; None where this vextract no longer knows it.
        new: The new tree.
        options, manifest: What it was made with.
    """
    paths = {file.path for file in new}
    by_upstream = {file.upstream_path: file.path for file in new if file.kind is FileKind.VENDORED}
    known = {file.upstream_path for file in lock.files}
    before = _modules(old, lock.options) if old is not None else {}
    after = _modules(manifest, options)
    found = {}
    for file in lock.files:
        if file.kind is not FileKind.VENDORED or file.path in paths or file.upstream_path is None:
            continue
        if file.upstream_path in by_upstream:
            found[file.path] = by_upstream[file.upstream_path]
            continue
        roles = [role for role, modules in before.items() if file.upstream_path in modules]
        come = [path for role in roles for path in after.get(role, ()) if path in by_upstream and path not in known]
        if come:
            found[file.path] = by_upstream[come[0]]
    return found


def _modules(manifest: Manifest, options: Options) -> dict[str, list[str]]:
    """Role, whatever the engine -> upstream paths of the files that may hold its symbols, in the manifest's order."""
    found: dict[str, list[str]] = {}
    for role in manifest.active_roles(options):
        name = role.name.removesuffix(f"_{role.engine}")
        for symbol in role.symbols:
            module = symbol.partition(":")[0].replace(".", "/")
            found.setdefault(name, []).extend((f"{module}.py", f"{module}/__init__.py"))
    return found
