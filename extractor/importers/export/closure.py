"""Find the package modules that hooks need, and verl's equivalents."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from extractor.importers.config.project import parse_hook
from extractor.project.lock import Lock
from extractor.values import readers
from extractor.values.modules import list_imports
from extractor.values.moved_modules import rename_dotted_name
from extractor.values.reachable import find_reachable
from extractor.values.setting_types import PATH as SHIPPED
from extractor.values.tree import FileKind


@dataclass(frozen=True)
class Needed:
    """Files that an export's hooks need.

    Attributes:
        own: Paths of the project's files to copy as they are.
        vendored: Paths of vendored files -> upstream's path: verl's own stands in for them.
    """

    own: tuple[str, ...]
    vendored: Mapping[str, str]


def find_needed(project: Path, lock: Lock, roots: Iterable[str], modules: Iterable[str] = ()) -> Needed:
    """Follow the imports of the package's own modules.

    Args:
        project: Its directory.
        lock: Its lock: it says what is vendored.
        roots: Paths of modules to start from, below the package; those that are not there are skipped.
        modules: Paths of others, below the project.

    Raises:
        UsageError: a hook is no Python.
    """
    package = lock.options.package
    vendored = {
        file.path: file.upstream_path
        for file in lock.files
        if file.kind is FileKind.VENDORED and file.upstream_path is not None and file.path.endswith(".py")
    }

    def lead_to(path: str) -> list[str]:
        return [*_list_packages(project, path), *(() if path in vendored else _list_imports(project, path, package))]

    starts = [f"{package}/{root}" for root in roots if (project / package / root).is_file()]
    reached = find_reachable([*starts, *modules, *readers.list_python_below(project, f"{package}/custom")], lead_to)
    stubs = {path: vendored[path] for path in sorted(reached & vendored.keys()) if not path.endswith("__init__.py")}
    tables = f"{package}/{SHIPPED}"  # the package's first import reads them
    own = (reached - stubs.keys()) | ({tables} if (project / tables).is_file() else set())
    return Needed(tuple(sorted(own)), stubs)


def _list_packages(project: Path, path: str) -> Iterable[str]:
    """Return the `__init__.py` of each package that a module is in."""
    for folder in list(PurePosixPath(path).parents)[:-1]:
        init = f"{folder}/__init__.py"
        if (project / init).is_file() and init != path:
            yield init


def _walk_runtime_nodes(tree: ast.AST) -> Iterable[ast.AST]:
    """Yield a module's nodes, except blocks for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from _walk_runtime_nodes(ast.Module(node.orelse, []))
        else:
            yield node
            yield from _walk_runtime_nodes(node)


def _list_imports(project: Path, path: str, package: str) -> list[str]:
    """Return the package's files that a module imports at run time."""
    imports = list_imports(_walk_runtime_nodes(parse_hook(project / path)), path)
    found = [place for module, name, _ in imports for place in (f"{module}.{name}", module)]
    files = [item.replace(".", "/") for name in found for item in (name, rename_dotted_name(name, package))]
    candidates = [name for item in files for name in (f"{item}.py", f"{item}/__init__.py")]
    return [name for name in candidates if name.startswith(f"{package}/") and (project / name).is_file()]
