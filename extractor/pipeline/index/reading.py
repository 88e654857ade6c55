"""Collect a statement's names, imports and annotations in one walk."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from extractor.pipeline.index.statement import MemberNames
from extractor.values import readers

# A name, or several with points between; where values are put in, there is a star.
_MARK = "*"
_NAME = re.compile(r"[\w*]+(?:\.[\w*]+)*")
# Less than this of a name that is put together says nothing: f"{a}_{b}" may be any name with a line in it.
_LETTERS = 3
_PLACE = re.compile(r"%\(?\w*\)?s|\{\w*\}")


class CodeScan:
    """The names, imports and annotations of a piece of code.

    Attributes:
        chains: Name -> the attribute chains read from it, the longest of each expression; () for the bare name.
        imports: The import statements in it.
        annotations: Annotations that are written as strings, parsed.
    """

    def __init__(self, *nodes: ast.AST) -> None:
        self.chains: dict[str, set[tuple[str, ...]]] = {}
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.annotations: list[ast.expr] = []
        self._stored: Counter[str] = Counter()
        self._loose: set[str] = set()
        self._super: set[str] = set()
        self._put_together: set[str] = set()
        pending: list[ast.AST] = list(nodes)
        while pending:
            self._read(pending.pop(), pending)

    def words(
        self, outside: AbstractSet[str], own: str | None = None, names_in_class: AbstractSet[str] = frozenset()
    ) -> MemberNames:
        """Return names by which the code may reach object members.

        Args:
            outside: Names that stand for something of another package wherever the code does not bind them itself:
                what is read from them is none of verl's.
            own: For a method, the name of its first argument, which it must not bind again.
            names_in_class: Names that the code reads in the body of its class.
        """
        found, mine = set(self._loose), {*self._super, *names_in_class}
        for name, chains in self.chains.items():
            if name in outside and name not in self._stored:
                continue
            for chain in chains:
                if name == own and self._stored[name] == 1:
                    mine.update(chain[:1])
                    found.update(chain[1:])
                else:
                    found.update(chain)
        return MemberNames(frozenset(found), frozenset(mine), frozenset(self._put_together))

    def _read(self, node: ast.AST, pending: list[ast.AST]) -> None:
        if isinstance(node, (ast.Attribute, ast.Name)):
            self._read_chain(node, pending)
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.JoinedStr):
            self._read_string("".join(_read_literal(part) for part in node.values))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self._read_string(_PLACE.sub(_MARK, node.value))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imports.append(node)
        elif isinstance(node, ast.keyword):
            self._loose.add(node.arg or "")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            self._read_string(_read_literal(node.left) + _read_literal(node.right))
        elif isinstance(node, ast.MatchClass):
            self._loose.update(node.kwd_attrs)
        else:
            self._read_definition(node)
        pending.extend(ast.iter_child_nodes(node))

    def _read_definition(self, node: ast.AST) -> None:
        if isinstance(node, ast.arg):
            self._stored[node.arg] += 1
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            self.annotations.extend(_find_string_annotations(node.annotation))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.annotations.extend(_find_string_annotations(node.returns))

    def _read_chain(self, node: ast.Attribute | ast.Name, pending: list[ast.AST]) -> None:
        parts: list[str] = []
        base: ast.AST = node
        while isinstance(base, ast.Attribute):
            parts.append(base.attr)
            base = base.value
        chain = tuple(reversed(parts))
        if isinstance(base, ast.Name):
            self.chains.setdefault(base.id, set()).add(chain)
            if not isinstance(base.ctx, ast.Load):
                self._stored[base.id] += 1
            return
        above = isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super"
        (self._super if above else self._loose).update(chain[:1])
        self._loose.update(chain[1:])
        pending.append(base)

    def _read_string(self, text: str) -> None:
        if not _NAME.fullmatch(text):
            return
        for part in text.split("."):
            if _MARK not in part:
                self._loose.add(part)
            elif sum(map(str.isalnum, part)) >= _LETTERS:
                self._put_together.add(re.sub(r"\*+", "*", part))


def _read_literal(node: ast.AST) -> str:
    """Return a string literal's text, or a mark for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else _MARK


def _find_string_annotations(annotation: ast.expr | None) -> Iterator[ast.expr]:
    for item in ast.walk(annotation) if annotation is not None else ():
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            expression = readers.parse_expression(item.value)
            if expression is not None:
                yield expression
