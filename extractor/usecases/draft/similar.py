"""Find a definition's new place by name and similarity of body.

Bodies are compared as the syntax tree spells them, without comments, docstrings, decorators and layout. The score of
two is the share of runs of three tokens that both have (Dice's coefficient): 1 for equal bodies, about 0.1 for others.
"""

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from extractor.pipeline.index import Index
from extractor.pipeline.index.syntax import is_docstring, list_child_statements
from extractor.values.errors import SourceError

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_ENOUGH, _ALONE_ENOUGH, _AHEAD = 0.6, 0.2, 0.15
_MOST = 3


@dataclass(frozen=True)
class Suggestion:
    """A place in the source that may have taken something's part.

    Attributes:
        place: "module:name", a module, or a path.
        score: From 0 to 1: the share of the code that both have; None where there is nothing to compare.
        why: What the score is about.
    """

    place: str
    score: float | None
    why: str

    def __str__(self) -> str:
        return f"{self.place} ({self.why})"


def score(one: _Definition, other: _Definition) -> float:
    """Return the share of runs that two definitions have in common."""
    runs, others = _count_runs(one), _count_runs(other)
    return 2 * (runs & others).total() / max(runs.total() + others.total(), 1)


def _count_runs(node: _Definition) -> Counter[tuple[str, ...]]:
    node = copy.deepcopy(node)
    node.name, node.decorator_list = "_", []
    for item in ast.walk(node):
        if isinstance(item, _Definition):
            item.body = [part for part in item.body if not is_docstring(part)] or [ast.Pass()]
    tokens = re.findall(r"\w+|[^\w\s]", ast.unparse(node))
    return Counter(zip(tokens, tokens[1:], tokens[2:], strict=False))


class Catalogue:
    """All top-level functions and classes of a source."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @cached_property
    def _places(self) -> dict[str, dict[str, _Definition]]:
        """Return name -> symbol "module:name" -> definition."""
        places: dict[str, dict[str, _Definition]] = {}
        for module in sorted(self._index.names):
            try:
                statements = self._index[module].statements
            except SourceError:
                continue
            for statement in statements:
                for node in _list_definitions(statement.node):
                    places.setdefault(node.name, {}).setdefault(f"{module}:{node.name}", node)
        return places

    def find(self, name: str, old: _Definition | None) -> tuple[Suggestion, ...]:
        """Return possible new places of a definition, best first.

        Args:
            old: The definition as it was; None where only the name is known.
        """
        named = self._places.get(name, {})
        if old is None:
            return tuple(Suggestion(place, None, "has the same name") for place in list(named)[:_MOST])
        scored = sorted((-score(old, node), place) for place, node in named.items())[:_MOST]
        return tuple(
            Suggestion(place, round(-ratio, 3), f"the same name, {-ratio:.0%} of the body in common")
            for ratio, place in scored
        )


def choose(suggestions: tuple[Suggestion, ...]) -> str | None:
    """Return the suggestion that clearly scores best, or None."""
    if not suggestions or suggestions[0].score is None:
        return None
    best, second = suggestions[0].score, suggestions[1].score if len(suggestions) > 1 else None
    is_clear = best >= _ALONE_ENOUGH if second is None else best >= _ENOUGH and best - second >= _AHEAD
    return suggestions[0].place if is_clear else None


def find_definition(index: Index, symbol: str) -> _Definition | None:
    """Return the function or class that a symbol names, or None."""
    module, _, name = symbol.partition(":")
    if module not in index:
        return None
    statements = index[module].statements
    nodes = [
        node for number in index[module].bindings.get(name, ()) for node in _list_definitions(statements[number].node)
    ]
    return next((node for node in nodes if node.name == name), None)


def find_module(old: Index, module: str, new: Catalogue, wanted: Iterable[str] = ()) -> tuple[Suggestion, ...]:
    """Return modules that now hold a module's definitions (the wanted ones, if any), best first."""
    names = wanted or (old[module].bindings if module in old else ())
    nodes = {name: node for name in names if (node := find_definition(old, f"{module}:{name}")) is not None}
    places = (choose(new.find(name, node)) for name, node in nodes.items())
    votes = Counter(place.partition(":")[0] for place in places if place is not None)
    return tuple(
        Suggestion(place, round(count / len(nodes), 3), f"has {count} of its {len(nodes)} definitions")
        for place, count in sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
    )


def _list_definitions(node: ast.stmt) -> Iterator[_Definition]:
    """Yield a top-level statement's definitions, including those inside `if` and `try`."""
    if isinstance(node, _Definition):
        yield node
    elif isinstance(node, (ast.If, ast.Try)):
        for child in list_child_statements(node):
            yield from _list_definitions(child)
