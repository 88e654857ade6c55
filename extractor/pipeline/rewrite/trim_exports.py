"""Remove names that are gone from `__all__`."""

import ast

from extractor.pipeline.index.syntax import Span, drop_items, find_lines, replace_spans
from extractor.pipeline.rewrite.names import Names

_ALL = "__all__"


def drop_computed_exports(text: str, tree: ast.Module) -> str:
    """Drop a computed `__all__`; star imports are spelt out anyway.

    Args:
        text: The module's.
        tree: The same, parsed.
    """
    if _ALL not in text:
        return text
    return replace_spans(text, [(*find_lines(text, node), "") for node in tree.body if _is_computed(node)])


def trim_exports(names: Names) -> str:
    """Return a module's text without gone names in a literal `__all__`.

    Args:
        names: Those of the module, imports already pruned.
    """
    bound = names.module.bound
    if names.exported <= bound or any(alias.name == "*" for site in names.imports for alias in site.node.names):
        return names.text
    spans: list[Span] = []
    for statement in names.tree.body:
        value = _find_value(statement)
        if not isinstance(value, (ast.List, ast.Tuple)):
            continue
        kept = [index for index, item in enumerate(value.elts) if ast.literal_eval(item) in bound]
        if kept:
            spans += drop_items(value.elts, kept)
        else:
            spans.append((*find_lines(names.text, statement), ""))
    return replace_spans(names.text, spans)


def _find_value(statement: ast.stmt) -> ast.expr | None:
    """Return what a statement assigns to `__all__`, or adds to it."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.value if ast.unparse(statement.targets[0]) == _ALL else None
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        return statement.value if ast.unparse(statement.target) == _ALL else None
    return None


def _is_computed(statement: ast.stmt) -> bool:
    value = _find_value(statement)
    if value is None:
        call = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(call, ast.Call) and ast.unparse(call.func).startswith(f"{_ALL}.")
    return not isinstance(value, (ast.List, ast.Tuple)) or not all(
        isinstance(item, ast.Constant) for item in value.elts
    )
