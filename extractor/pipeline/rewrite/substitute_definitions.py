"""Replace definitions of upstream by imports of ours."""

from extractor.pipeline.index.syntax import write_import
from extractor.pipeline.slicer import Substitute, Target


def import_line(package: str, target: Target, name: str) -> str:
    """Return the import that binds `name` to `target`."""
    if target.name is None:
        parent, _, leaf = f"{package}.{target.module}".rpartition(".")
        return f"from {parent} import {leaf}" + ("" if leaf == name else f" as {name}")
    return f"from {package}.{target.module} import {target.name}" + ("" if target.name == name else f" as {name}")


def substitute_imports(substitutes: tuple[Substitute, ...], package: str) -> list[str]:
    """Return the import lines of substitutes, merged by module."""
    by_module: dict[str, list[str]] = {}
    lines: list[str] = []
    for substitute in sorted(substitutes, key=lambda item: (item.statement, item.name)):
        line = import_line(package, substitute.target, substitute.name)
        head, _, name = line.partition(" import ")
        if head not in by_module:
            lines.append(head)
        if name not in by_module.setdefault(head, []):
            by_module[head].append(name)
    return [write_import(head, by_module[head]) for head in lines]
