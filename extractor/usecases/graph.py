"""Group a project's modules by folder, with sizes and imports."""

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from extractor.pipeline.index.syntax import is_docstring
from extractor.project.lock import Lock
from extractor.values import limits, readers
from extractor.values.manifest import VENDORED
from extractor.values.modules import list_imports, name_module
from extractor.values.moved_modules import rename_dotted_name
from extractor.values.tree import FileKind


@dataclass(frozen=True)
class GraphModule:
    """One module of a project.

    Attributes:
        path: POSIX path relative to the project.
        kind: "vendored", "template", "hook", or "owner" for a file that the owner added.
        group: The folder of the package that it lies in, upstream's below "vendored/".
        lines: Lines of the file.
        upstream_path: The file of verl that a vendored one comes from.
        imports: Paths of the project's modules that it imports, sorted; imports inside functions count.
        edited: True where the file is not as it was emitted.
    """

    path: str
    kind: str
    group: str
    lines: int
    upstream_path: str | None
    imports: tuple[str, ...]
    edited: bool


@dataclass(frozen=True)
class Graph:
    """The modules of a project, sorted by group and path.

    Attributes:
        title: The project's package, and what it was made from.
        modules: All modules.
    """

    title: str
    modules: tuple[GraphModule, ...]

    @property
    def groups(self) -> dict[str, list[GraphModule]]:
        """Return the modules of each group: ours first, then upstream's."""
        groups: dict[str, list[GraphModule]] = {}
        for module in self.modules:
            groups.setdefault(module.group, []).append(module)
        return groups

    def between(self) -> Counter[tuple[str, str]]:
        """Return (importing group, imported group) -> number of imports, sorted."""
        groups = {module.path: module.group for module in self.modules}
        pairs = [(module.group, groups[target]) for module in self.modules for target in module.imports]
        return Counter(sorted(pair for pair in pairs if pair[0] != pair[1]))


def build(project: Path, lock: Lock) -> Graph:
    """Build a project's module graph from its files, without verl."""
    package = lock.options.package
    locked = {file.path: file for file in lock.files}
    paths = {
        *readers.list_python_below(project, package),
        *(path for path in locked if path.endswith(".py") and "/" not in path),
    }
    files = {path: readers.read_bytes(project / path, limits.MAX_TEXT) for path in paths if (project / path).is_file()}
    trees = {path: readers.parse_python_or_nothing(data) for path, data in files.items()}
    # A package that holds nothing but a sentence is left out.
    dotted = {
        name_module(path): path
        for path, tree in trees.items()
        if not path.endswith("/__init__.py") or not all(is_docstring(node) for node in tree.body)
    }
    modules = []
    for path in dotted.values():
        file = locked.get(path)
        is_edited = file is not None and sha256(files[path]).hexdigest() != file.sha256
        _, *folders = PurePosixPath(path).parent.parts or (".",)
        modules.append(
            GraphModule(
                path=path,
                kind=file.kind.value if file is not None else "owner",
                group="/".join(folders[: 2 if folders[:1] == [VENDORED] else 1]) or ".",
                lines=files[path].count(b"\n"),
                upstream_path=file.upstream_path if file is not None else None,
                imports=_find_imports(path, trees[path], dotted, package),
                edited=file is not None and file.kind is not FileKind.HOOK and is_edited,
            )
        )
    modules.sort(key=lambda module: (module.group.startswith(VENDORED), module.group, module.path))
    options = lock.options
    made = ", ".join([f"verl {options.verl}", f"engine {options.engine}", options.algorithm, *options.features])
    return Graph(f"{package}: {made}", tuple(modules))


def _find_imports(path: str, tree: ast.Module, modules: Mapping[str, str], package: str) -> tuple[str, ...]:
    names = {(module, f"{module}.{name}") for module, name, _ in list_imports(ast.walk(tree), path)}
    imported = {whole if rename_dotted_name(whole, package) in modules else module for module, whole in names}
    today = {name if name in modules else rename_dotted_name(name, package) for name in imported}
    return tuple(sorted(modules[name] for name in today if name in modules and modules[name] != path))
