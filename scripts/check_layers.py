"""Check that a stage of the pipeline imports only values and earlier stages, and that only the command line prints."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "extractor"

# Lowest first: a module may import modules of its own line or of a line above it in this list.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "options", "tree", "resources"),
    ("disk", "hydra", "workplace"),
    ("manifest",),
    ("pins",),
    ("source",),
    ("releases",),
    ("index",),
    ("slicer",),
    ("rewrite",),
    ("unread",),
    ("render",),
    ("generate",),
    ("explain", "changes", "graph", "lock", "base"),
    ("draft", "merge"),
    ("plan",),
    ("diff", "journal"),
    ("apply", "status"),
    ("project", "restore"),
    ("upgrade", "adopt", "export"),
    ("fromrun",),
    ("verify",),
    ("cli",),
)


def stage_of(path: Path) -> str:
    """The stage that a file belongs to: extractor/rewrite/x.py -> "rewrite"."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and dotted name of everything imported from this package."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "extractor":
                found.extend((node.lineno, f"extractor.{alias.name}") for alias in node.names)
            elif node.module.startswith("extractor."):
                found.append((node.lineno, node.module))
        elif isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name) for alias in node.names if alias.name.startswith("extractor."))
    return found


def prints_in(tree: ast.AST) -> list[int]:
    """Lines that call print()."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def main() -> int:
    order = {name: level for level, names in enumerate(LAYERS) for name in names}
    problems = []
    for path in sorted(ROOT.rglob("*.py")):
        stage = stage_of(path)
        if stage in ("__init__", "__main__"):
            continue
        if stage not in order:
            problems.append(f"{path}: the stage {stage} has no place in LAYERS")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, name in imports_of(tree):
            other = name.split(".")[1]
            if other in order and order[other] > order[stage]:
                problems.append(f"{path}:{line}: {stage} must not import {name}, a later stage")
        if (
            stage != "cli" and "driver" not in path.parts
        ):  # verify/driver/ holds scripts that run in a process of their own
            problems.extend(f"{path}:{line}: only cli/ prints" for line in prints_in(tree))
    print("\n".join(problems) or f"layers: {len(order)} stages in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
