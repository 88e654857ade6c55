"""Convert between file paths and module names."""

import ast
from collections.abc import Iterable, Iterator


def name_module(path: str) -> str:
    """Return the dotted module of a POSIX path: "verl/utils/__init__.py" -> "verl.utils"."""
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_package(path: str) -> bool:
    """Return True for the `__init__.py` of a package."""
    return path.rpartition("/")[2] == "__init__.py"


def resolve_absolute(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    """Return the absolute module name of a `from` statement."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: max(len(parts) - node.level + is_package, 0)]
    return ".".join([*base, node.module] if node.module else base)


def list_imports(nodes: Iterable[ast.AST], path: str) -> Iterator[tuple[str, str, str]]:
    """Yield each import's absolute module, name and local name.

    Args:
        nodes: Of the file, at POSIX path `path`; those that are no imports are passed over.
        path: From which relative imports start.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "*", alias.asname or alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_absolute(node, name_module(path), is_package=is_package(path))
            yield from ((module, alias.name, alias.asname or alias.name) for alias in node.names)
