"""What a program hands over, as expressions of the config that it is given: `list(config.a.b) if config.c else []`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

_PLAIN_NODES = (
    ast.Expression,
    ast.Attribute,
    ast.Name,
    ast.Constant,
    ast.Call,
    ast.Subscript,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.boolop,
    ast.cmpop,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)
_METHODS = {"get", "getenv"}
_FUNCTIONS = {"bool", "dict", "float", "getattr", "hasattr", "int", "len", "list", "max", "min", "str", "tuple"}
_BODIES = ("body", "handlers", "orelse", "finalbody")
_GIVEN = {"config", "os", "tokenizer"}
# Names that stand for names, and how long what they make may get.
_DEEPEST, _LONGEST = 8, 2_000


class Values:
    """What a program's variables, and the settings that it sets, are given: by conditions, where they say it.

    Args:
        tree: The program.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._at: dict[int, dict[str, ast.expr]] = {}
        self.in_the_end: dict[str, ast.expr] = {}
        self._follow(tree.body, self.in_the_end)

    def where(self, node: ast.AST) -> dict[str, ast.expr]:
        """Return what they are given where a statement, or a call in it, stands; what comes later fills gaps."""
        return {**self.in_the_end, **self._at.get(id(node), {})}

    def _follow(self, body: Sequence[ast.AST], found: dict[str, ast.expr]) -> None:
        for node in body:
            inside = [item for name in _BODIES for item in getattr(node, name, None) or []]
            if isinstance(node, ast.If):
                ways = dict(found), dict(found)
                self._follow(node.body, ways[0])
                self._follow(node.orelse, ways[1])
                for name in dict.fromkeys([*ways[0], *ways[1]]):
                    found[name] = _either(node.test, name, *(way.get(name) for way in ways))
            elif inside:
                self._follow(inside, found)
            else:
                here = dict(found)
                self._at |= {id(item): here for item in ast.walk(node) if isinstance(item, (ast.Assign, ast.Call))}
            if isinstance(node, ast.Assign):
                names = [ast.unparse(target) for target in node.targets]
                found |= {name: node.value for name in names if name.isidentifier() or name.startswith("config.")}


def _either(test: ast.expr, name: str, one: ast.expr | None, other: ast.expr | None) -> ast.expr:
    """Return what is given one way or another; where one gives it nothing a setting is as it was, a variable unused."""
    as_it_was = ast.parse(name, mode="eval").body if name.startswith("config.") else None
    one, other = one or as_it_was or other, other or as_it_was or one
    assert one is not None
    assert other is not None
    return one if one is other else ast.IfExp(test, one, other)


def said(value: ast.expr, values: Mapping[str, ast.expr]) -> str | None:
    """Return an expression of the run's config, its tokenizer and its environment alone; None: it is of others.

    Args:
        value: As the program has it.
        values: What its variables are given.
    """
    try:
        written = ast.unparse(_Inlined(values).visit(ast.parse(ast.unparse(value), mode="eval")))
    except RecursionError:
        return None
    text = re.sub(r"\bself\.(config|tokenizer)\b", r"\1", written)
    if len(text) > _LONGEST:
        return None
    nodes = list(ast.walk(ast.parse(text, mode="eval")))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    methods = {id(func) for func in calls if isinstance(func, ast.Attribute) and func.attr in _METHODS}
    known = all(id(func) in methods or ast.unparse(func) in _FUNCTIONS for func in calls)
    plain = all(isinstance(node, _PLAIN_NODES) for node in nodes)
    return text if plain and known and names <= {*_GIVEN, *_FUNCTIONS} else None


class _Inlined(ast.NodeTransformer):
    """Puts in the place of variables, and of settings that a program sets, what they are given."""

    def __init__(
        self, values: Mapping[str, ast.expr], inside: tuple[str, ...] = (), size: list[int] | None = None
    ) -> None:
        self._values = values
        self._inside = inside
        self._size = [0] if size is None else size

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._of(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        found = self._of(node)
        if found is node:
            node.value = self.visit(node.value)
        return found

    def _of(self, node: ast.expr) -> ast.expr:
        name = ast.unparse(node)
        value = self._values.get(name)
        if value is None or name in {*_GIVEN, *self._inside} or len(self._inside) >= _DEEPEST:
            return node
        text = ast.unparse(value)
        self._size[0] += len(text)
        if self._size[0] > _LONGEST:
            return node
        inner = _Inlined(self._values, (*self._inside, name), self._size)
        made: ast.expr = inner.visit(ast.parse(text, mode="eval").body)
        return made
