"""The modules of a project and what they import, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from extractor.values.tree import FileKind

OWNER = "owner"
# By kind: the colour of a picture, and what the kind means.
FILL = {"vendored": "#8fb4e8", "template": "#c9ced8", "hook": "#a9d8a4", OWNER: "#f3cd8f"}
MEANING = {
    "vendored": "verl's code",
    "template": "ours, from templates",
    "hook": "hooks, yours to write",
    OWNER: "files that you added",
}


@dataclass(frozen=True)
class Module:
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
    modules: tuple[Module, ...]

    def of(self, group: str) -> tuple[Module, ...]:
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

    def between(self) -> dict[tuple[str, str], list[tuple[Module, Module]]]:
        """Return (importing group, imported group) -> the imports behind it, each pair of groups apart; sorted."""
        modules = {module.path: module for module in self.modules}
        found: dict[tuple[str, str], list[tuple[Module, Module]]] = {}
        for importer, imported in self.edges():
            pair = modules[importer].group, modules[imported].group
            if pair[0] != pair[1]:
                found.setdefault(pair, []).append((modules[importer], modules[imported]))
        return dict(sorted(found.items()))

    def size(self, kind: FileKind | str) -> tuple[int, int]:
        """Count the files and the lines of a kind."""
        wanted = kind.value if isinstance(kind, FileKind) else kind
        found = [module.lines for module in self.modules if module.kind == wanted]
        return len(found), sum(found)
