"""Leave out branches that only a setting which nobody sets, or turns on, would choose."""

import ast
from collections.abc import Callable, Mapping
from typing import Any

from extractor.pipeline.index.syntax import read_attribute_chain

_UNKNOWN = object()
_ROUNDS = 6  # a name that hangs on a name that hangs on a setting, and what is then left


def drop_unset_branches(
    code: str, is_set: Callable[[str], bool], is_off: Callable[[str, str], bool] = lambda section, key: False
) -> str:
    """Return code without what stands in an `if` that never holds while a setting is unset, or off.

    Args:
        code: Of a function or a class.
        is_set: Tells whether anything sets a key that code asks for by `config.get("key", default)`.
        is_off: Tells by section and key whether all that sets a setting turns it off.
    """
    return ast.unparse(ast.fix_missing_locations(_Folder(is_set, is_off).visit(ast.parse(code))))


class _Folder(ast.NodeTransformer):
    """Folds branches function by function."""

    def __init__(self, is_set: Callable[[str], bool], is_off: Callable[[str, str], bool]) -> None:
        self._is_set, self._is_off = is_set, is_off
        self._known: Mapping[str, Any] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._known = {}
        for _ in range(_ROUNDS):
            self._known = self._find_known(node)
            self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.If | list[ast.stmt]:
        self.generic_visit(node)
        is_kept = self._evaluate(node.test)
        return node if is_kept is _UNKNOWN else (node.body if is_kept else node.orelse) or [ast.Pass()]

    def _find_known(self, function: ast.FunctionDef) -> dict[str, Any]:
        """Return the names that are given one known value and no other."""
        found: dict[str, list[Any]] = {part.arg: [_UNKNOWN] for part in ast.walk(function) if isinstance(part, ast.arg)}
        for part in ast.walk(function):
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
                found.setdefault(part.targets[0].id, []).append(self._evaluate(part.value))
            else:
                targets = getattr(part, "targets", [getattr(part, "target", getattr(part, "optional_vars", None))])
                names = {item.id for target in targets if target for item in ast.walk(target) if hasattr(item, "id")}
                found.update({name: [_UNKNOWN] for name in names})
        return {name: values[0] for name, values in found.items() if all(value is values[0] for value in values)}

    def _evaluate(self, node: ast.expr) -> Any:
        """Return an expression's value; `_UNKNOWN` where it hangs on what is not known."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._known.get(node.id, _UNKNOWN)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            value = self._evaluate(node.operand)
            return value if value is _UNKNOWN else not value
        chain = read_attribute_chain(node) if isinstance(node, ast.Attribute) else ()
        if any(name.endswith("config") for name in chain[:-2]) and self._is_off(*chain[-2:]):
            return False
        if isinstance(node, ast.BoolOp):
            values = [self._evaluate(item) for item in node.values]
            decides = [item for item in values if item is not _UNKNOWN and bool(item) == isinstance(node.op, ast.Or)]
            return next(iter(decides), _UNKNOWN if _UNKNOWN in values else values[-1])
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            left, right = self._evaluate(node.left), self._evaluate(node.comparators[0])
            is_same = (left is right) == isinstance(node.ops[0], ast.Is)
            return _UNKNOWN if _UNKNOWN in (left, right) else is_same
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("config.get"):
            key = node.args[0]
            if isinstance(key, ast.Constant) and not self._is_set(str(key.value)):
                return self._evaluate(node.args[1]) if node.args[1:] else None
        return _UNKNOWN
