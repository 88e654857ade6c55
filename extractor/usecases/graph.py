"""Group the modules of a project by role, with sizes and imports."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

from extractor.project import base
from extractor.project.lock import Lock
from extractor.values import limits, readers, releases
from extractor.values.errors import VextractError
from extractor.values.manifest import VENDORED, Manifest
from extractor.values.modules import absolute, is_package, module_name
from extractor.values.moves import moved_name
from extractor.values.reachable import reachable
from extractor.values.tree import FileKind

OWNER = "owner"
MEANING = {
    "vendored": "verl's code",
    "template": "ours, from templates",
    "hook": "hooks, yours to write",
    OWNER: "files that you added",
}
TRAINER = "trainer"
HOOKS = "hooks"
SHIMS = "shims"
SHARED = "shared"


@dataclass(frozen=True)
class GraphModule:
    """One module of a project.

    Attributes:
        path: POSIX path relative to the project.
        name: The path as it is shown, without the package.
        kind: "vendored", "template", "hook", or "owner" for a file that the owner added.
        group: Name of the group that it belongs to.
        lines: Lines of the file.
        upstream_path: The file of verl that a vendored one comes from.
        imports: Paths of the project's modules that it imports, sorted; imports inside functions count.
        edited: True where the file is not as it was emitted.
    """

    path: str
    name: str
    kind: str
    group: str
    lines: int
    upstream_path: str | None
    imports: tuple[str, ...]
    edited: bool = False


@dataclass(frozen=True)
class Graph:
    """The modules of a project by group.

    Attributes:
        title: The project's package, and what it was made from.
        groups: Names of the groups, in the order in which they are shown: ours, upstream's roles, what they share.
        modules: All modules, sorted by group and path.
    """

    title: str
    groups: tuple[str, ...]
    modules: tuple[GraphModule, ...]

    def of(self, group: str) -> tuple[GraphModule, ...]:
        """Return the modules of a group."""
        return tuple(module for module in self.modules if module.group == group)

    def only(self, kind: str) -> Graph:
        """Return the graph of the modules of one kind."""
        modules = tuple(module for module in self.modules if module.kind == kind)
        paths = {module.path for module in modules}
        modules = tuple(
            replace(module, imports=tuple(target for target in module.imports if target in paths)) for module in modules
        )
        named = {module.group for module in modules}
        return Graph(self.title, tuple(group for group in self.groups if group in named), modules)

    def importers(self, path: str) -> tuple[str, ...]:
        """Return the paths of the modules that import a module."""
        return tuple(module.path for module in self.modules if path in module.imports)

    def edges(self) -> Iterator[tuple[str, str]]:
        """Return pairs of importing and imported module."""
        return ((module.path, target) for module in self.modules for target in module.imports)

    def between(self) -> dict[tuple[str, str], list[tuple[GraphModule, GraphModule]]]:
        """Return (importing group, imported group) -> the imports behind it, each pair of groups apart; sorted."""
        modules = {module.path: module for module in self.modules}
        found: dict[tuple[str, str], list[tuple[GraphModule, GraphModule]]] = {}
        for importer, imported in self.edges():
            pair = modules[importer].group, modules[imported].group
            if pair[0] != pair[1]:
                found.setdefault(pair, []).append((modules[importer], modules[imported]))
        return dict(sorted(found.items()))

    def mermaid(self) -> str:
        """Return the groups and the number of imports between them as a flowchart of Mermaid's."""
        numbers = {group: f"g{number}" for number, group in enumerate(self.groups)}
        lines = ["flowchart LR"]
        for group, number in numbers.items():
            modules = self.of(group)
            size = sum(module.lines for module in modules)
            lines.append(f'  {number}["{group.replace("_", " ")}<br>{len(modules)} files, {size:,} lines"]')
        for (importer, imported), imports in self.between().items():
            lines.append(f"  {numbers[importer]} -->|{len(imports)}| {numbers[imported]}")
        return "\n".join(lines)


def build(project: Path, lock: Lock) -> Graph:
    """Read the graph of a project; verl itself is not needed.

    Args:
        project: Its directory.
        lock: Its lock.
    """
    package = lock.options.package
    files = _files(project, lock)
    trees = {path: _parse(data) for path, data in files.items()}
    dotted = {module_name(path): path for path in files}
    imports = {path: _imports(path, tree, dotted, package) for path, tree in trees.items()}
    # A package that holds nothing but a sentence is no module worth a look.
    shown = [path for path in sorted(files) if not _is_empty(path, trees[path])]
    locked = {file.path: file for file in lock.files}
    upstream = {file.path: file.upstream_path for file in lock.files if file.upstream_path is not None}
    roles = _roles(_manifest(lock), lock, upstream, trees, imports)
    modules = []
    for path in shown:
        entry = locked.get(path)
        kind = entry.kind.value if entry is not None else OWNER
        modules.append(
            GraphModule(
                path=path,
                name=path.removeprefix(f"{package}/"),
                kind=kind,
                group=roles.get(path) or _group(path, kind, package, roles, imports[path]),
                lines=files[path].count(b"\n"),
                upstream_path=upstream.get(path),
                imports=tuple(target for target in imports[path] if target in shown),
                edited=entry is not None
                and entry.kind is not FileKind.HOOK
                and sha256(files[path]).hexdigest() != entry.sha256,
            )
        )
    groups = _order(_manifest(lock), {module.group for module in modules})
    modules.sort(key=lambda module: (groups.index(module.group), module.path))
    options = lock.options
    made = ", ".join([f"verl {options.verl}", f"engine {options.engine}", options.algorithm, *options.features])
    return Graph(f"{package}: {made}", groups, tuple(modules))


def _files(project: Path, lock: Lock) -> dict[str, bytes]:
    """Return the project's modules as they are on disk; of a file that is missing, what was emitted."""
    package = lock.options.package
    found: dict[str, bytes] = {}
    missing = []
    wanted = [file.path for file in lock.files if _is_module(file.path, package)]
    for path in wanted:
        try:
            found[path] = readers.read_bytes(project / path, limits.MAX_TEXT)
        except OSError:
            missing.append(path)
    if missing:
        try:
            emitted = base.read(project, lock)
        except VextractError:
            emitted = {}
        found.update((path, emitted[path]) for path in missing if path in emitted)
    for path in readers.python_below(project, package):
        if path not in found:
            found[path] = readers.read_bytes(project / path, limits.MAX_TEXT)
    return found


def _is_module(path: str, package: str) -> bool:
    return path.endswith(".py") and (path.startswith(f"{package}/") or "/" not in path)


def _parse(data: bytes) -> ast.Module:
    try:
        return readers.python(data)
    except SyntaxError:
        return ast.Module([], [])  # the owner is in the middle of something


def _is_empty(path: str, tree: ast.Module) -> bool:
    return path.endswith("/__init__.py") and all(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in tree.body
    )


def _imports(path: str, tree: ast.Module, modules: Mapping[str, str], package: str) -> tuple[str, ...]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = absolute(node, module_name(path), is_package=is_package(path))
            names = [f"{module}.{alias.name}" for alias in node.names]
            found.update(name if moved_name(name, package) in modules else module for name in names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    today = {name if name in modules else moved_name(name, package) for name in found}
    return tuple(sorted(modules[name] for name in today if name in modules and modules[name] != path))


def _manifest(lock: Lock) -> Manifest | None:
    try:
        return releases.load(lock.borrowed_from or lock.options.verl)
    except VextractError:
        return None  # a release that this vextract does not know: then there are no roles to show


def _roles(
    manifest: Manifest | None,
    lock: Lock,
    upstream: Mapping[str, str],
    trees: Mapping[str, ast.Module],
    imports: Mapping[str, tuple[str, ...]],
) -> dict[str, str]:
    """Return the role of each vendored module: that of its roots, or of the only role that needs it, or `shared`."""
    if manifest is None:
        return {}
    roots: dict[str, str] = {}
    for role in manifest.active_roles(lock.options):
        for symbol in (*role.symbols, *(f"{module}:*" for module in role.modules)):
            for path in _definers(symbol, upstream, trees):
                roots.setdefault(path, role.name.removesuffix(f"_{lock.options.engine}"))

    def inner(path: str) -> list[str]:
        return [item for item in imports[path] if item in upstream and item not in roots]

    needed: dict[str, set[str]] = {}
    for root, role_name in roots.items():
        for target in reachable([root], inner) - {root}:
            needed.setdefault(target, set()).add(role_name)
    found = dict(roots)
    for path in upstream:
        if path not in roots:
            # What no role imports, such as a package that only registers, stands with what it imports itself.
            names = needed.get(path) or {roots[target] for target in imports.get(path, ()) if target in roots}
            found[path] = min(names) if len(names) == 1 else SHARED
    return found


def _role_of_ours(path: str, roles: Mapping[str, str], imports: tuple[str, ...]) -> str:
    """Return the role that a module of ours serves: that of the vendored modules in its folder or its imports."""
    package, _, below = posixpath.dirname(path).partition("/")
    near = [other for other in roles if below and posixpath.dirname(other) == f"{package}/{VENDORED}/{below}"]
    for names in ({roles[other] for other in near}, {roles[other] for other in near if other in imports}):
        if len(names - {SHARED}) == 1:
            return min(names - {SHARED})
    return TRAINER


def _definers(symbol: str, upstream: Mapping[str, str], trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the vendored files that define a root: its module, or one below the package that offers it."""
    module, _, name = symbol.partition(":")
    stem = module.replace(".", "/")
    for path, origin in upstream.items():
        if path not in trees:
            continue
        if origin in (f"{stem}.py", f"{stem}/__init__.py"):
            if name == "*" or _defines(trees[path], name):
                yield path
        elif origin.startswith(f"{stem}/") and name != "*" and _defines(trees[path], name):
            yield path


def _defines(tree: ast.Module, name: str) -> bool:
    return any(getattr(node, "name", None) == name for node in tree.body)


def _group(path: str, kind: str, package: str, roles: Mapping[str, str], imports: tuple[str, ...]) -> str:
    if kind == FileKind.HOOK.value or path.startswith(f"{package}/custom/"):
        return HOOKS
    if path.startswith(f"{package}/shims/"):
        return SHIMS
    if kind == FileKind.VENDORED.value:
        return PurePosixPath(path.removeprefix(f"{package}/{VENDORED}/")).parts[0].removesuffix(".py")
    return _role_of_ours(path, roles, imports)


def _order(manifest: Manifest | None, groups: set[str]) -> tuple[str, ...]:
    first = [HOOKS, TRAINER]
    roles = [
        name for role in (manifest.roles if manifest is not None else ()) for name in (role.name, _short(role.name))
    ]
    last = [SHARED, SHIMS]
    known = [*first, *roles, *sorted(groups - {*first, *roles, *last}), *last]
    return tuple(dict.fromkeys(name for name in known if name in groups))


def _short(role: str) -> str:
    return role.rpartition("_")[0] or role
