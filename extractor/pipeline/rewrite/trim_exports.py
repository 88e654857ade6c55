"""Remove names that are gone from `__all__`."""

import libcst as cst

from extractor.pipeline.rewrite.names import Names
from extractor.pipeline.rewrite.nodes import is_name, keep_only

_ALL = "__all__"


def drop_computed_exports(module: cst.Module, text: str) -> tuple[cst.Module, bool]:
    """Drop a computed `__all__`; star imports are spelt out anyway.

    Returns:
        The module, and whether something went.
    """
    if "__all__" not in text:
        return module, False
    body = [statement for statement in module.body if not _is_computed(statement)]
    if len(body) == len(module.body):
        return module, False
    return module.with_changes(body=body), True


def trim_exports(module: cst.Module, names: Names) -> cst.Module:
    """Remove names that are gone from a literal `__all__`.

    Args:
        module: The module, imports already pruned.
        names: Its names.
    """
    bound = names.module.bound
    if names.exported <= bound or any(alias.name == "*" for site in names.imports for alias in site.node.names):
        return module
    body: list[cst.BaseStatement] = []
    for statement in module.body:
        value = _find_value(statement)
        if not isinstance(value, (cst.List, cst.Tuple)):
            body.append(statement)
            continue
        keep = [_read_string(item) in bound for item in value.elements]
        if all(keep):
            body.append(statement)
        elif any(keep):
            assert isinstance(statement, cst.SimpleStatementLine)
            trimmed = value.with_changes(elements=keep_only(value.elements, keep))
            body.append(statement.with_changes(body=[statement.body[0].with_changes(value=trimmed)]))
    return module.with_changes(body=body)


def _find_value(statement: cst.BaseStatement) -> cst.BaseExpression | None:
    """Return what a statement assigns to `__all__`, or adds to it."""
    small = _find_only_part(statement)
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and is_name(small.targets[0].target, _ALL):
        return small.value
    if isinstance(small, (cst.AnnAssign, cst.AugAssign)) and is_name(small.target, _ALL):
        return small.value
    return None


def _find_only_part(statement: cst.BaseStatement) -> cst.BaseSmallStatement | None:
    one = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
    return statement.body[0] if one and isinstance(statement, cst.SimpleStatementLine) else None


def _is_computed(statement: cst.BaseStatement) -> bool:
    value = _find_value(statement)
    if value is None:
        small = _find_only_part(statement)
        call = small.value if isinstance(small, cst.Expr) else None
        return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and is_name(call.func.value, _ALL)
    return not (isinstance(value, (cst.List, cst.Tuple)) and all(_read_literal(item) for item in value.elements))


def _read_literal(element: cst.BaseElement) -> bool:
    return isinstance(element, cst.Element) and isinstance(element.value, cst.SimpleString)


def _read_string(element: cst.BaseElement) -> str:
    assert isinstance(element.value, cst.SimpleString)
    return element.value.raw_value
