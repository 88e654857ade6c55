"""Find where a definition has gone, by name and by likeness of its body.

Bodies are compared as the syntax tree spells them, without comments, docstrings, decorators, layout and the own name of
the definition. The score of two is the share of runs of three tokens that they have in common (Dice's coefficient): 1
for equal bodies, about 0.1 for unrelated ones.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from extractor.pipeline.index import Index
from extractor.usecases.draft.findings import Suggestion
from extractor.values.errors import SourceError

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
ALIKE = 0.5
SAME_NAME_ENOUGH = 0.6
ALONE_ENOUGH = 0.9
ONLY_ENOUGH = 0.2
AHEAD = 0.15
_MOST = 3
_SHORT = 30
_TOKEN = re.compile(r"\w+|[^\w\s]")


def runs(node: _Definition) -> Counter[tuple[str, ...]]:
    """Return the runs of three tokens of a definition."""
    node = copy.deepcopy(node)
    node.name, node.decorator_list = "_", []
    for item in ast.walk(node):
        if isinstance(item, _Definition):
            item.body = [part for part in item.body if not _is_string(part)] or [ast.Pass()]
    tokens = _TOKEN.findall(ast.unparse(node))
    return Counter(zip(tokens, tokens[1:], tokens[2:], strict=False))


def score(one: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> float:
    """Return the share of runs that two have in common."""
    return 2 * (one & other).total() / max(one.total() + other.total(), 1)


class Catalogue:
    """All functions and classes of a source, methods included."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._runs: dict[str, Counter[tuple[str, ...]]] = {}

    @cached_property
    def places(self) -> dict[str, _Definition]:
        """Return symbol -> definition; a method's symbol is "module:Class.method"."""
        found: dict[str, _Definition] = {}
        for module in sorted(self._index.names):
            try:
                statements = self._index[module].statements
            except SourceError:
                continue
            for statement in statements:
                for node in _definitions(statement.node):
                    found.setdefault(f"{module}:{node.name}", node)
                    if isinstance(node, ast.ClassDef):
                        for method in node.body:
                            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                                found.setdefault(f"{module}:{node.name}.{method.name}", method)
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for symbol in self.places:
            found.setdefault(_name(symbol), []).append(symbol)
        return found

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {symbol: sum(1 for _ in ast.walk(node)) for symbol, node in self.places.items()}

    def runs_of(self, symbol: str) -> Counter[tuple[str, ...]]:
        """Return the runs of one of the places."""
        if symbol not in self._runs:
            self._runs[symbol] = runs(self.places[symbol])
        return self._runs[symbol]

    def suggestions(self, name: str, old: _Definition | None) -> tuple[Suggestion, ...]:
        """Return the places that may have taken a definition's part, the best first.

        Args:
            name: Its name.
            old: The definition as it was; None where only the name is known.
        """
        named = self._by_name.get(name, [])
        if old is None:
            return tuple(Suggestion(place, None, "has the same name") for place in named[:_MOST])
        was = runs(old)
        found = [(score(was, self.runs_of(place)), place) for place in named]
        if was.total() >= _SHORT and not any(ratio >= SAME_NAME_ENOUGH for ratio, _ in found):
            found += [item for item in self._alike(old, was) if item[1] not in named]
        found.sort(key=lambda item: (-item[0], item[1]))
        return tuple(
            Suggestion(place, round(ratio, 3), _why(ratio, _name(place) == name))
            for ratio, place in found
            if ratio >= ALIKE or place in named
        )[:_MOST]

    def _alike(self, old: _Definition, was: Counter[tuple[str, ...]]) -> Iterator[tuple[float, str]]:
        size = sum(1 for _ in ast.walk(old))
        for place, node in self.places.items():
            # A body of less than a third, or more than thrice the size cannot have half of its runs in common.
            same_kind = isinstance(node, ast.ClassDef) == isinstance(old, ast.ClassDef)
            if same_kind and size / 3 <= self._sizes[place] <= size * 3:
                ratio = score(was, self.runs_of(place))
                if ratio >= ALIKE:
                    yield ratio, place


def certain(name: str, suggestions: tuple[Suggestion, ...]) -> str | None:
    """Return the suggestion to take without asking: clearly ahead of the others, and clearly the same code."""
    if not suggestions or suggestions[0].score is None or "." in suggestions[0].place.partition(":")[2]:
        return None
    best = suggestions[0]
    if len(suggestions) == 1 and _name(best.place) == name and (best.score or 0) >= ONLY_ENOUGH:
        return best.place
    behind = suggestions[1].score if len(suggestions) > 1 else 0.0
    wanted = SAME_NAME_ENOUGH if _name(best.place) == name else ALONE_ENOUGH
    assert best.score is not None
    ahead = best.score - (behind or 0.0) >= AHEAD
    return best.place if best.score >= wanted and ahead else None


def definition_of(index: Index, symbol: str) -> _Definition | None:
    """Return the function or class of this symbol; None for other values, and where there is none."""
    module, _, name = symbol.partition(":")
    if module not in index:
        return None
    found = index[module]
    for number in found.bindings.get(name, ()):
        for node in _definitions(found.statements[number].node):
            if node.name == name:
                return node
    return None


def module_moved(old: Index, module: str, new: Catalogue) -> tuple[Suggestion, ...]:
    """Return the modules that now hold what a module held, by the share of its functions and classes that they have."""
    if module not in old:
        return ()
    names = [name for name in old[module].bindings if definition_of(old, f"{module}:{name}") is not None]
    votes: Counter[str] = Counter()
    for name in names:
        found = new.suggestions(name, definition_of(old, f"{module}:{name}"))
        place = certain(name, found)
        if place is not None:
            votes[place.partition(":")[0]] += 1
    ranked = sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
    return tuple(
        Suggestion(place, round(count / len(names), 3), f"has {count} of its {len(names)} definitions")
        for place, count in ranked
    )


def _definitions(node: ast.stmt) -> Iterator[_Definition]:
    """Yield the definitions that a top-level statement makes, those in `if` and `try` included."""
    if isinstance(node, _Definition):
        yield node
    elif isinstance(node, (ast.If, ast.Try)):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from _definitions(child)


def _is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _name(symbol: str) -> str:
    return symbol.rpartition(":")[2].rpartition(".")[2]


def _why(ratio: float, same_name: bool) -> str:
    if ratio >= 1:
        return "the same body" + (" and name" if same_name else " under another name")
    return f"{'the same name, ' if same_name else ''}{ratio:.0%} of the body in common"
