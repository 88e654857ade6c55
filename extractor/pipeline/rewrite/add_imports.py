"""Add import lines to a module, such as those of our own code for upstream's."""

from collections.abc import Sequence

import libcst as cst

from extractor.pipeline.index.syntax import write_import
from extractor.pipeline.rewrite.nodes import is_docstring, is_import
from extractor.pipeline.slicer import Substitute, Target


def add_imports(module: cst.Module, lines: Sequence[str]) -> cst.Module:
    """Insert missing import lines after the last import at the top."""
    present = {
        module.code_for_node(statement.body[0])
        for statement in module.body
        if isinstance(statement, cst.SimpleStatementLine) and is_import(statement)
    }
    missing = [line for line in dict.fromkeys(lines) if line not in present]
    if not missing:
        return module
    at = 0
    for index, statement in enumerate(module.body):
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            break
        if is_import(statement) or (index == 0 and is_docstring(statement)):
            at = index + 1
    made = [cst.parse_statement(line, config=module.config_for_parsing) for line in missing]
    alone = at == 0 or not is_import(module.body[at - 1])
    if alone and at > 0:
        made[0] = made[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return module.with_changes(body=[*module.body[:at], *made, *module.body[at:]])


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
