"""Slice statements backwards: what makes names, and entries of one object."""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from extractor.pipeline.index.syntax import read_attribute_chain

_CHANGES = {"append", "extend", "update", "add", "setdefault", "insert", "remove", "pop", "sort", "fill"}


class BackwardSlicer:
    """Slices statements backwards.

    Attributes of `self` are names as well: `self.step`.

    Args:
        holder: The name of the object whose entries are asked for.
        parts: Its attributes that have them, by constant keys.
        skipped: Conditions that never hold.
        is_wanted: Tells of statements that come along besides.
        change: Changes a statement that comes along.
    """

    def __init__(
        self,
        holder: str,
        parts: Collection[str],
        skipped: re.Pattern[str],
        is_wanted: Callable[[ast.stmt], bool],
        change: Callable[[ast.stmt], ast.stmt],
    ) -> None:
        self._holder, self._parts, self._skipped = holder, parts, skipped
        self._is_wanted, self._change = is_wanted, change

    def run(self, statements: Sequence[ast.stmt], names: set[str], entries: Collection[str]) -> list[ast.stmt]:
        """Return the statements that make names and entries; `names` becomes what these need."""
        found: list[ast.stmt] = []
        for node in reversed(statements):
            if isinstance(node, ast.With):
                inner = self.run(node.body, names, entries)
                found[:0] = (
                    [ast.With(node.items, inner, lineno=0)] if inner and "no_grad" in ast.unparse(node) else inner
                )
            elif isinstance(node, ast.If) and self._skipped.search(ast.unparse(node.test)):
                found[:0] = self.run(node.orelse, names, entries)
            elif isinstance(node, ast.If):
                asked = [set(names), set(names)]
                body, orelse = self.run(node.body, asked[0], entries), self.run(node.orelse, asked[1], entries)
                if body or orelse:
                    found.insert(0, ast.If(node.test, body or [ast.Pass()], orelse))
                    names -= names - asked[0] - asked[1]  # what both make
                    names |= {*asked[0], *asked[1], *list_needed(node.test)}
            elif isinstance(node, ast.Try):
                self._run_try(node, names, entries, found)
            elif self._makes(node, names, entries) or self._is_wanted(node):
                if isinstance(node, (ast.Assign, ast.AnnAssign)):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    names -= {ast.unparse(item) for target in targets for item in list_items(target)}
                elif isinstance(node, (ast.Import, ast.ImportFrom)):
                    names -= {item.asname or item.name for item in node.names}
                elif isinstance(node, ast.FunctionDef):
                    names.discard(node.name)
                changed = self._change(node)
                names |= list_needed(changed)
                found.insert(0, changed)
        return found

    def _run_try(self, node: ast.Try, names: set[str], entries: Collection[str], found: list[ast.stmt]) -> None:
        """Put what a `try` makes in front of what was found."""
        found[:0] = self.run(node.finalbody, names, entries)
        asked = [set(names)]
        body, handlers = self.run([*node.body, *node.orelse], asked[0], entries), []
        for item in node.handlers:
            asked.append(set(names))
            own = self.run(item.body, asked[-1], entries)
            own += item.body[-1:] if isinstance(item.body[-1], ast.Raise) else []
            asked[-1] -= {item.name or ""}
            handlers.append(ast.ExceptHandler(item.type, item.name, own or [ast.Pass()]))
        if body:
            found.insert(0, ast.Try(body, handlers, [], []))
            names.intersection_update(set().union(*asked))  # what all make is made
            names |= set().union(*asked)

    def _makes(self, node: ast.stmt, names: set[str], entries: Collection[str]) -> bool:
        """Tell whether a statement makes or changes what is asked for."""
        if isinstance(node, (ast.Assert, ast.Delete, ast.Return, ast.Raise)):
            return False
        made, written = self.find_made([node])
        return bool(made & (names - {self._holder}) or written & set(entries))

    def find_made(self, nodes: Iterable[ast.stmt]) -> tuple[set[str], set[str]]:
        """Return the names and the entries that statements make or change."""
        names, entries = set(), set()
        for part in _walk_block(nodes):
            targets = list(part.targets) if isinstance(part, ast.Assign) else []
            if isinstance(part, (ast.AugAssign, ast.AnnAssign, ast.For, ast.NamedExpr)):
                targets = [part.target]
            elif isinstance(part, (ast.Import, ast.ImportFrom)):
                names |= {item.asname or item.name for item in part.names}
            elif isinstance(part, ast.FunctionDef):
                names.add(part.name)
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                is_change = part.func.attr in _CHANGES or re.search(r"[a-z]_$", part.func.attr)  # x.masked_fill_()
                targets = [part.func.value] if is_change else part.args[:1] if part.func.attr == "shuffle" else []
            for item in (item for target in targets for item in list_items(target)):
                while isinstance(item, ast.Subscript):
                    chain = read_attribute_chain(item.value)
                    is_entry = len(chain) == 2 and chain[0] == self._holder and chain[1] in self._parts
                    if is_entry and isinstance(item.slice, ast.Constant):
                        entries.add(str(item.slice.value))
                        break
                    item = item.value
                else:
                    chain = read_attribute_chain(item)
                    if chain and not (chain[0] == self._holder and chain[1:2] and chain[1] in self._parts):
                        names.add(".".join(chain[:2]) if chain[0] == "self" else chain[0])
        return names, entries


def _walk_block(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and what is in them, but nothing of functions."""
    for node in nodes:
        yield node
        if not isinstance(node, ast.FunctionDef):
            yield from _walk_block(ast.iter_child_nodes(node))


def list_needed(node: ast.AST) -> set[str]:
    """Return the names that code needs; an attribute of `self` with `self.`."""
    found, bound = set(), set()
    is_block = isinstance(node, (ast.For, ast.While, ast.Try, ast.FunctionDef))
    for part in ast.walk(node):
        chain = read_attribute_chain(part) if isinstance(part, (ast.Name, ast.Attribute)) else ()
        if chain and isinstance(getattr(part, "ctx", None), ast.Load) and chain != ("self",):
            found.add(".".join(chain[:2]) if chain[0] == "self" else chain[0])
        targets = [part.target] if isinstance(part, (ast.comprehension, ast.For)) else []
        targets += part.targets if is_block and isinstance(part, ast.Assign) else []
        bound |= {ast.unparse(item) for target in targets for item in list_items(target)}
        bound |= {part.arg} if isinstance(part, ast.arg) else set()
    changed = [part.target for part in ast.walk(node) if isinstance(part, ast.AugAssign)]
    return found - bound | {item.id for item in changed if isinstance(item, ast.Name)}


def list_items(target: ast.expr) -> Iterator[ast.expr]:
    """Yield what an assignment has on its left."""
    for item in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
        yield item.value if isinstance(item, ast.Starred) else item
