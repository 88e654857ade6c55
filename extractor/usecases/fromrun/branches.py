"""`if`, `case`, loops, `&&` and `||`: the way that a script takes, as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from extractor.usecases.fromrun.statements import Statements
from extractor.usecases.fromrun.unknowns import unknown, unknowns
from extractor.usecases.fromrun.variables import Failure, Stop
from extractor.values.limits import MAX_ROUNDS


class Branches(Statements):
    """Where a condition is not known, what its ways differ in is not known behind it either."""

    def _on_negated_command(self, node: Any) -> bool | None:
        outcome = self._statement(node.named_children[-1])
        return None if outcome is None else not outcome

    def _on_list(self, node: Any) -> bool | None:
        left, right = node.named_children[0], node.named_children[-1]
        outcome = self._statement(left)
        wanted = any(child.type == "&&" for child in node.children)
        if outcome is None:
            return self._perhaps([right.children if right.type == "compound_statement" else [right], []], right)
        return self._checked([right], node) if outcome is wanted else outcome

    def _checked(self, nodes: Iterable[Any], whole: Any) -> bool | None:
        """Return what a condition that holds leads to. A check that fails may not fail where the script is started."""
        try:
            return self.run(nodes)
        except Failure:
            self._note(whole, "as far as is known the script would exit here with an error; reading continued")
            return None

    def _on_if_statement(self, node: Any) -> bool | None:
        return self._branches(node, node)

    def _branches(self, node: Any, whole: Any) -> bool | None:
        """Return an `if` or `elif`: what follows `then`, or the clauses behind it."""
        children = [child for child in node.children if child.type != "comment"]
        then = next(index for index, child in enumerate(children) if child.type == "then")
        condition = [child for child in children[:then] if child.is_named]
        clauses = [child for child in children[then:] if child.type in ("elif_clause", "else_clause")]
        if node.type == "elif_clause":
            siblings = [item for item in whole.children if item.type in ("elif_clause", "else_clause")]
            clauses = siblings[siblings.index(node) + 1 :]
        body = [child for child in children[then:] if child.is_named and child not in clauses]
        outcome = self.run(condition)
        if outcome:
            return self._checked(body, node)
        if outcome is None:
            return self._perhaps([body, clauses[:1]], node, whole)
        return self._otherwise(clauses, whole)

    def _otherwise(self, clauses: list[Any], whole: Any) -> bool | None:
        if not clauses:
            return True
        if clauses[0].type == "elif_clause":
            return self._branches(clauses[0], whole)
        return self.run(clauses[0].named_children)

    def _perhaps(self, ways: list[list[Any]], node: Any, whole: Any = None) -> bool | None:
        """Follow both ways of an unknown condition: what they differ in is unknown behind it."""
        self._doubts += 1
        self._spend(50 * len(self._variables))
        before, results = dict(self._variables), []
        count = len(self.commands)
        for way in ways:
            self._variables = dict(before)
            try:
                if len(way) == 1 and way[0].type in ("elif_clause", "else_clause"):
                    self._otherwise(way, whole)
                else:
                    self.run(way)
            except Stop:
                if len(self.commands) == count:
                    continue  # a way that ends the script is not taken
            results.append(self._variables)
        self._variables = dict(before)
        names = sorted({name for result in results for name in result})
        differ = [name for name in names if any(result.get(name) != results[0].get(name) for result in results)]
        for name in results[0] if results else ():
            if name not in differ:
                self._variables[name] = results[0][name]
        for name in differ:
            self._put(name, unknown(name))
        if differ:
            self._note(node, f"a condition is unknown, and so is what depends on it: {', '.join(differ)}")
        return None

    def _on_case_statement(self, node: Any) -> bool | None:
        value = self._one(node.child_by_field_name("value"))
        items = [child for child in node.named_children if child.type == "case_item"]
        if unknowns(value):
            return self._perhaps([_case_body(item) for item in items], node)
        for item in items:
            if any(fnmatchcase(value, self._pattern(pattern)) for pattern in item.children_by_field_name("value")):
                return self._checked(_case_body(item), node)
        return True

    def _pattern(self, node: Any) -> str:
        return node.text.decode() if node.type == "extglob_pattern" else self._one(node)

    def _on_for_statement(self, node: Any) -> bool | None:
        name = node.child_by_field_name("variable").text.decode()
        values = [word for child in node.children_by_field_name("value") for word in self._words(child)]
        if not any(child.type == "in" for child in node.children):
            values = list(self._arguments)
        if len(values) > MAX_ROUNDS:
            self._note(node, f"only the first {MAX_ROUNDS} rounds of this loop were read")
        for value in values[:MAX_ROUNDS]:
            self._put(name, value)
            try:
                self._statement(node.child_by_field_name("body"))
            except Stop:
                continue
        return True

    def _on_while_statement(self, node: Any) -> bool | None:
        condition = node.child_by_field_name("condition")
        for _ in range(MAX_ROUNDS):
            outcome = self._statement(condition)
            if node.children[0].type == "until" and outcome is not None:
                outcome = not outcome
            if outcome is None:
                return self._perhaps([[node.child_by_field_name("body")], []], node)
            if not outcome:
                return True
            try:
                self._statement(node.child_by_field_name("body"))
            except Stop:
                break
        return None

    def _on_c_style_for_statement(self, node: Any) -> bool | None:
        return self._perhaps([[node.child_by_field_name("body")], []], node)


def _case_body(item: Any) -> list[Any]:
    values = {value.id for value in item.children_by_field_name("value")}
    return [child for child in item.named_children if child.id not in values]
