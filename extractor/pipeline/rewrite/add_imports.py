"""Add import lines below a module's existing imports."""

from collections.abc import Sequence

import libcst as cst

from extractor.pipeline.rewrite.nodes import is_docstring, is_import


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
