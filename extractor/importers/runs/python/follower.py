"""A training script as it would go, followed statement by statement: nothing of it is run.

Where a condition is known only to the script, both ways are followed, and what differs after them is not known. A
function's call is followed with its arguments; functions that nothing here calls are followed at the end, with their
defaults. What trainers are handed is noted where they are made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from extractor.importers.runs.python import calls, expressions, names, statements, unentered
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.states import Ways
from extractor.importers.runs.python.syntax import is_one_of, last_of
from extractor.importers.runs.python.values import Items, Own, OwnClass, Scope, TooLong


class Follower(Run):
    """Follows a script."""

    def follow(self) -> None:
        """Follow the script, and then what nothing in it has called."""
        try:
            self.ends(self.tree.body, self.top)
            for group in self.sought:
                if any(is_one_of(last_of(event.of), group) for event in self.events):
                    break
                for function, kind in unentered.left(self, group):
                    unentered.follow(self, function, kind)
        except TooLong:
            pass

    # Of `Run`

    def ends(self, body: Iterable[ast.stmt], scope: Scope) -> Ways:
        return statements.ends(self, body, scope)

    def result_of(self, body: Iterable[ast.stmt], scope: Scope) -> tuple[Any, ...]:
        return statements.result_of(self, body, scope)

    def value_of(self, node: ast.expr, scope: Scope) -> Any:
        return expressions.value_of(node, scope, self)

    def looked_up(self, name: str, scope: Scope) -> Any:
        return names.looked_up(self, name, scope)

    def attribute(self, owner: Any, name: str, text: str) -> Any:
        return names.attribute(self, owner, name, text)

    def bind(self, target: ast.expr, value: Any, scope: Scope, node: ast.expr | None = None) -> None:
        names.bind(self, target, value, scope, node)

    def call(self, node: ast.Call, scope: Scope) -> Any:
        return calls.call(self, node, scope)

    def enter(self, function: Own, given: Sequence[Any], named: Items, text: str) -> Any:
        return calls.enter(self, function, given, named, text)

    def fields(self, kind: OwnClass) -> Items:
        return calls.fields(self, kind)

    def base_of(self, kind: OwnClass) -> str | None:
        return calls.base_of(self, kind)

    def iterated(self, value: Any) -> list[Any] | None:
        return expressions.iterated(value, self)
