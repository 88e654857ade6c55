"""Resolve a fork's names and imports in the target project."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from extractor.importers.adopt.differences import Compared, list_imports
from extractor.importers.adopt.findings import Copy
from extractor.importers.python_text.module_imports import Name, write_import
from extractor.importers.python_text.segments import Segment, decode, restore_upstream_names, split
from extractor.pipeline.generate import Generated
from extractor.pipeline.slicer import KeptModule
from extractor.pipeline.source import Source
from extractor.values.modules import name_module

OWN = ""


class NoPlace(Exception):
    """Raised when the project cannot take an edit; says why."""


@dataclass(frozen=True, order=True)
class Unit:
    """A segment or file that is carried as a whole.

    Attributes:
        module: Dotted upstream module.
        key: Key of a segment of the fork's; OWN for a whole file that upstream does not have.
    """

    module: str
    key: str


@dataclass(frozen=True)
class Line:
    """An import that carried code needs.

    Attributes:
        place: The module and the name in it; None for the module itself.
        local: The name that it binds.
        outside: The package outside the project that it imports; empty for one inside.
    """

    place: tuple[str, str | None]
    local: str
    outside: str = ""

    @property
    def text(self) -> str:
        """Return the statement."""
        return write_import(self.place, self.local, self.place[1])


@dataclass(frozen=True)
class Sides:
    """One kept module: upstream's, the fork's, the emitted one.

    Attributes:
        kept: What the slicer says.
        path: In the project.
        compared: Upstream's and the fork's segments, and how they differ.
        emitted: The project's segments, by key.
    """

    kept: KeptModule
    path: str
    compared: Compared
    emitted: Mapping[str, Segment] = field(repr=False)

    @property
    def module(self) -> str:
        return self.kept.module

    @property
    def is_package(self) -> bool:
        return self.kept.upstream_path.endswith("__init__.py")

    @cached_property
    def dropped(self) -> dict[str, frozenset[str]]:
        """Return the methods that each vendored class lacks."""
        found: dict[str, frozenset[str]] = {}
        for statement, positions in self.kept.dropped:
            node = self.kept.body[statement]
            if isinstance(node, ast.ClassDef):
                found[node.name] = frozenset(getattr(node.body[position], "name", "") for position in positions)
        return found

    @cached_property
    def emitted_names(self) -> frozenset[str]:
        return frozenset(name for item in self.emitted.values() for name in item.binds)

    @cached_property
    def fork_by_name(self) -> dict[str, Segment]:
        """Return the fork's segment that defines each name, without imports."""
        return {name: item for item in self.compared.fork if not item.is_import for name in item.binds}

    @cached_property
    def fork_imports(self) -> dict[str, Name]:
        return list_imports(self.compared.fork, self.module, is_package=self.is_package)


class AdoptTarget:
    """The project that edits go to; resolves names in it."""

    def __init__(
        self, copy: Copy, source: Source, generated: Generated, package: str, compared: Mapping[str, Compared]
    ) -> None:
        self.copy = copy
        self.compared = compared
        self.package = package
        self._found = generated.sliced
        self.files = {file.path: file for file in generated.tree}
        # Of a module and a package of one name Python imports the package.
        packages_last = sorted(copy.own, key=lambda path: path.endswith("/__init__.py"))
        self.own = {name_module(path): path for path in packages_last}
        self.sides: dict[str, Sides] = {}
        for kept in generated.sliced.modules:
            path = f"{package}/{kept.target_path}"
            old, emitted = decode(source.files[kept.upstream_path]), decode(self.files[path].data)
            if old is not None and emitted is not None:
                sides = compared.get(kept.upstream_path) or Compared(split(old), split(old))
                self.sides[kept.module] = Sides(kept, path, sides, {item.key: item for item in split(emitted)})

    def read_fork_text(self, upstream_path: str) -> str | None:
        """Return the fork's text under upstream's names, or None."""
        data = self.copy.files.get(upstream_path, self.copy.own.get(upstream_path))
        text = decode(data) if data is not None else None
        return None if text is None else restore_upstream_names(text, self.copy.prefixes)

    def place_own_file(self, module: str) -> str:
        """Return the project path for a fork's own file, apart from the project's."""
        return f"{self.package}/fork/{self.own[module].removeprefix('verl/')}"

    def resolve(self, importer: str, item: Name) -> tuple[Line, set[Unit]]:
        """Map a fork's import to the project's; return units it needs."""
        if item.root == "ray":
            raise NoPlace("it needs Ray")
        if item.root in self.copy.neighbours and item.root != "verl":
            raise NoPlace(f"it needs {item.module}, which lies in your repository outside the copy of verl")
        if item.root != "verl":
            return Line((item.module, item.name), item.local, item.root), set()
        what = item.module if item.name is None else f"{item.module}:{item.name}"
        if item.is_dotted or item.name == "*":
            raise NoPlace(f"it imports {what} in a way that cannot be redirected")
        try:
            target = self._found.resolve_import(importer, item.module, item.name)
        except LookupError:
            target = None
        if target is not None and self._has(target.module, target.name):
            return self.line(target.module, target.name, item.local), set()
        sides = self.sides.get(item.module)
        segment = sides.fork_by_name.get(item.name or "") if sides is not None else None
        if sides is not None and segment is not None:
            needs = set() if item.name in sides.emitted_names else {Unit(item.module, segment.key)}
            return self.line(name_module(sides.kept.target_path), item.name, item.local), needs
        for module, name in ((f"{item.module}.{item.name}", None), (item.module, item.name)):
            if module in self.own:
                path = self.place_own_file(module).removeprefix(f"{self.package}/")
                return self.line(name_module(path), name, item.local), {Unit(module, OWN)}
        raise NoPlace(f"it needs {what}, which the project does not have")

    def find_attribute(self, item: Name, attribute: str) -> set[Unit]:
        """Return the units needed for an attribute of an imported module."""
        sides = self.sides.get(item.module if item.name is None else f"{item.module}.{item.name}")
        if sides is None or attribute in sides.emitted_names:
            return set()
        segment = sides.fork_by_name.get(attribute)
        if segment is None:
            raise NoPlace(f"it needs {sides.module}:{attribute}, which the project does not have")
        return {Unit(sides.module, segment.key)}

    def line(self, module: str, name: str | None, local: str) -> Line:
        """Return an import of one of the project's modules or names."""
        return Line((f"{self.package}.{module}" if module else self.package, name), local)

    def _has(self, module: str, name: str | None) -> bool:
        place = f"{self.package}/{module.replace('.', '/')}"
        path = next((path for path in (f"{place}.py", f"{place}/__init__.py") if path in self.files), None)
        if path is None or name is None:
            return path is not None
        return any(name in item.binds for item in split(decode(self.files[path].data) or ""))
