"""`if`, `case`, loops, `&&` and `||`: the way that a script takes, as far as it is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from extractor.importers.runs.bash.conditions import Conditions
from extractor.importers.runs.bash.expansion import Expansion
from extractor.importers.runs.bash.patterns import fits
from extractor.importers.runs.bash.state import Break, Failure, State, Stop, Value
from extractor.importers.runs.bash.syntax import field, text_of
from extractor.importers.runs.unknowns import readable, unknown, unknowns
from extractor.values.limits import MAX_ROUNDS

if TYPE_CHECKING:
    from tree_sitter import Node


class Runner(Protocol):
    """Reads the statements inside."""

    def run(self, nodes: Iterable[Node]) -> bool | None:
        """Read statements one after another; the outcome of the last as far as it is known."""

    def statement(self, node: Node) -> bool | None:
        """Read a statement; its outcome as far as it is known."""

    def apart(self, nodes: Iterable[Node]) -> bool | None:
        """Read what a subshell runs: nothing of it counts behind it but what it starts."""


class Branches:
    """Reads branches: where a condition is not known, what its ways differ in is not known behind it either.

    Args:
        state: Of the script.
        expansion: Works out words.
        conditions: Works out tests.
        interpreter: Reads the statements inside.
    """

    def __init__(self, state: State, expansion: Expansion, conditions: Conditions, interpreter: Runner) -> None:
        self._state = state
        self._expansion = expansion
        self._conditions = conditions
        self._interpreter = interpreter
        self.handlers: dict[str, Callable[[Node], bool | None]] = {
            "negated_command": self._negated,
            "list": self._list,
            "if_statement": lambda node: self._branches(node, node),
            "case_statement": self._case,
            "for_statement": self._for,
            "while_statement": self._while,
            "c_style_for_statement": self._counted,
        }

    def _negated(self, node: Node) -> bool | None:
        outcome = self._interpreter.statement(node.named_children[-1])
        return None if outcome is None else not outcome

    def _list(self, node: Node) -> bool | None:
        left, right = node.named_children[0], node.named_children[-1]
        outcome = self._interpreter.statement(left)
        wanted = any(child.type == "&&" for child in node.children)
        if outcome is None:
            return self._perhaps([right.children if right.type == "compound_statement" else [right], []], right)
        return self._checked([right], node) if outcome is wanted else outcome

    def _checked(self, nodes: Iterable[Node], whole: Node) -> bool | None:
        """Return what a condition that holds leads to. A check that fails may not fail where the script is started."""
        try:
            return self._interpreter.run(nodes)
        except Failure:
            self._state.note(whole, "as far as is known the script would exit here with an error; reading continued")
            return None

    def _branches(self, node: Node, whole: Node) -> bool | None:
        """Return an `if` or `elif`: what follows `then`, or the clauses behind it."""
        # Each `elif` looks at all clauses of its `if`.
        self._state.spend(50 * whole.child_count)
        children = [child for child in node.children if child.type != "comment"]
        then = next(index for index, child in enumerate(children) if child.type == "then")
        condition = [child for child in children[:then] if child.is_named]
        clauses = [child for child in children[then:] if child.type in ("elif_clause", "else_clause")]
        if node.type == "elif_clause":
            siblings = [item for item in whole.children if item.type in ("elif_clause", "else_clause")]
            clauses = siblings[siblings.index(node) + 1 :]
        body = [child for child in children[then:] if child.is_named and child not in clauses]
        outcome = self._interpreter.run(condition)
        if outcome:
            return self._checked(body, node)
        if outcome is None:
            return self._perhaps([body, clauses[:1]], node, whole)
        return self._otherwise(clauses, whole)

    def _otherwise(self, clauses: list[Node], whole: Node) -> bool | None:
        if not clauses:
            return True
        if clauses[0].type == "elif_clause":
            return self._branches(clauses[0], whole)
        return self._checked(clauses[0].named_children, clauses[0])

    def _perhaps(self, ways: list[list[Node]], node: Node, whole: Node | None = None) -> bool | None:
        """Follow both ways of an unknown condition: what they differ in is unknown behind it."""
        self._state.doubts += 1
        self._state.spend(50 * len(self._state.variables))
        before, results = dict(self._state.variables), []
        count = len(self._state.commands)
        for way in ways:
            self._state.variables = dict(before)
            try:
                if whole is not None and len(way) == 1 and way[0].type in ("elif_clause", "else_clause"):
                    self._otherwise(way, whole)
                else:
                    self._interpreter.run(way)
            except Stop:
                if len(self._state.commands) == count:
                    continue  # a way that ends the script is not taken
            results.append(self._state.variables)
        self._state.variables = dict(before)
        names = sorted({name for result in results for name in result})
        differ = [name for name in names if any(result.get(name) != results[0].get(name) for result in results)]
        for name in results[0] if results else ():
            if name not in differ:
                self._state.variables[name] = results[0][name]
        # Those that hold words of a command keep what they held.
        added = {name: _added(before.get(name), [result.get(name) for result in results]) for name in differ}
        differ = [name for name in differ if added[name] is None]
        for name, more in added.items():
            if more is not None:
                what = f"what {name} gets by it is left out: {readable(more)}"
                self._state.note(node, f"a condition is unknown, and {what}")
        for name in differ:
            self._state.put(name, unknown(name))
        if differ:
            self._state.note(node, f"a condition is unknown, and so is what depends on it: {', '.join(differ)}")
        return None

    def _case(self, node: Node) -> bool | None:
        value = self._expansion.one(field(node, "value"))
        items = [child for child in node.named_children if child.type == "case_item"]
        ways = [[*_case_body(item), *_fallen_into(items[index:])] for index, item in enumerate(items)]
        if unknowns(value):
            always = any(text_of(pattern) == "*" for item in items for pattern in item.children_by_field_name("value"))
            return self._perhaps(ways if always else [*ways, []], node)
        outcome: bool | None = True
        for index, item in enumerate(items):
            found = [self._fits(value, pattern) for pattern in item.children_by_field_name("value")]
            if True not in found and None in found:
                return self._perhaps([*ways[index:], []], node)
            if True not in found:
                continue
            outcome = self._checked(ways[index], node)
            if item.children[-1].type != ";;&":
                break
        return outcome

    def _fits(self, value: str, node: Node) -> bool | None:
        """Tell whether a text fits a pattern of a `case`."""
        pattern = self._expansion.pattern(node)
        return None if unknowns(pattern) else fits(value, pattern)

    def _for(self, node: Node) -> bool | None:
        name = text_of(field(node, "variable"))
        values = self._expansion.words_of(node.children_by_field_name("value"))
        if not any(child.type == "in" for child in node.children):
            values = list(self._state.arguments)
        if len(values) > MAX_ROUNDS:
            self._state.note(node, f"only the first {MAX_ROUNDS} rounds of this loop were read")
        for value in values[:MAX_ROUNDS]:
            self._state.put(name, value)
            if self._leaves(node):
                break
        return True

    def _leaves(self, loop: Node) -> bool:
        """Read the body of a loop once; whether the loop ends with it."""
        try:
            self._interpreter.statement(field(loop, "body"))
        except Break as left:
            if left.levels > 1:
                raise Break(left.levels - 1, goes_on=left.goes_on) from None
            return not left.goes_on
        return False

    def _while(self, node: Node) -> bool | None:
        condition = field(node, "condition")
        for _ in range(MAX_ROUNDS):
            outcome = self._interpreter.statement(condition)
            if node.children[0].type == "until" and outcome is not None:
                outcome = not outcome
            if outcome is None:
                return self._perhaps([[field(node, "body")], []], node)
            if not outcome:
                return True
            if self._leaves(node):
                return True
        if self._state.input is not None:
            self._state.note(node, f"only the first {MAX_ROUNDS} rounds of this loop were read")
        return None

    def _counted(self, node: Node) -> bool | None:
        """`for ((i = 0; i < n; i++))`."""
        opening, closing = (next(child for child in node.children if child.type == sign) for sign in ("((", "))"))
        parts = self._state.slice(opening.end_byte, closing.start_byte).split(";")
        first, condition, update = [*(part.strip() for part in parts), "", ""][:3]
        if first:
            self._conditions.computed(first)
        for _ in range(MAX_ROUNDS):
            outcome = self._conditions.computed(condition) if condition else True
            if outcome is None:
                return self._perhaps([[field(node, "body")], []], node)
            if not outcome or self._leaves(node):
                return True
            if update:
                self._conditions.computed(update)
        self._state.note(node, f"only the first {MAX_ROUNDS} rounds of this loop were read")
        return None


def _added(before: Value | None, ways: list[Value | None]) -> str | None:
    """Return the words that ways put behind a variable's words, where that is all that they do; None: it is not."""
    found = [_behind(before, way) for way in ways if way != before]
    return " or ".join(more for more in found if more is not None) if None not in found else None


def _behind(before: Value | None, way: Value | None) -> str | None:
    """Return the words that one value has behind all those of another; None: it is not made so."""
    if isinstance(before, list) and isinstance(way, list) and before and way[: len(before)] == before:
        return " ".join(way[len(before) :])
    if isinstance(before, str) and isinstance(way, str) and before.strip() and way.startswith(before):
        more = way.removeprefix(before)
        return " ".join(more.split()) if before[-1].isspace() or more[:1].isspace() else None
    return None


def _fallen_into(items: list[Node]) -> list[Node]:
    """Return what a `case` goes on with behind its first item: the next ones, as long as `;&` ends them."""
    found: list[Node] = []
    for item, following in itertools.pairwise(items):
        if item.children[-1].type != ";&":
            break
        found += _case_body(following)
    return found


def _case_body(item: Node) -> list[Node]:
    values = {value.id for value in item.children_by_field_name("value")}
    return [child for child in item.named_children if child.id not in values]
