"""Convert between file paths and module names."""

from __future__ import annotations

import ast


def module_name(path: str) -> str:
    """Return the dotted module of a POSIX path: "verl/utils/__init__.py" -> "verl.utils"."""
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_package(path: str) -> bool:
    """Return True for the `__init__.py` of a package."""
    return path.rpartition("/")[2] == "__init__.py"


def absolute(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    """Return the absolute module name of a `from` statement."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: max(len(parts) - node.level + is_package, 0)]
    return ".".join([*base, node.module] if node.module else base)
