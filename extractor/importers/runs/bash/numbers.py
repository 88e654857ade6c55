"""Arithmetic where it stands: `$((...))`, `((...))` and `let`, with the variables that it changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.arithmetic import CHANGE, NotKnown, changed, evaluate, parts
from extractor.importers.runs.bash.state import State
from extractor.importers.runs.bash.syntax import text_of
from extractor.importers.runs.unknowns import unknown

if TYPE_CHECKING:
    from tree_sitter import Node

_NAME = re.compile(r"(?<!\w)[A-Za-z_]\w*")


class Numbers:
    """Works it out.

    Args:
        state: Of the script.
        one: What a node inside expands to.
    """

    def __init__(self, state: State, one: Callable[[Node], str]) -> None:
        self._state = state
        self._one = one

    def text(self, node: Node) -> str:
        """Return what `$((...))` comes to."""
        text = text_of(node)
        inner = text[3:-2] if text.startswith("$((") else text[2:-1]
        inner = self._expand_inside(node, inner)
        value = self.computed(inner)
        if value is not None:
            return str(value)
        known = {name: self._state.number(name) for name in _NAME.findall(inner)}
        missing = [name for name, number in known.items() if number is None]
        left = _NAME.sub(lambda found: known[found[0]] or found[0], inner)
        return unknown(missing[0] if len(missing) == 1 else f"$(({left}))" if missing else text)

    def computed(self, text: str) -> int | None:
        """Carry out an expression such as `i = 0`, `i++` or `i < n`; None: what it comes to is not known."""
        value: int | None = None
        for part in parts(text):
            change = CHANGE.fullmatch(part.strip())
            try:
                value = evaluate(part, self._state.number) if change is None else self._changed(change)
            except NotKnown:
                value = None
                for name in changed(part):
                    self._state.put(name, unknown(name))
        return value

    def _changed(self, change: re.Match[str]) -> int:
        """Carry out `X++`, `++X`, `X += 2` or `X = 2`; what it comes to."""
        name, step = change["name"] or change["after"], change["step"] or change["first"]
        operation, operand = (step, "1") if step else (change["operation"], change["operand"])
        sign = operation[:1] if step else operation.removesuffix("=")
        value = evaluate(f"{name} {sign} ({operand})" if sign else operand, self._state.number)
        before = evaluate(name, self._state.number) if change["step"] else value
        self._state.put(name, str(value))
        return before

    def _expand_inside(self, node: Node, inner: str) -> str:
        """`${X:-2}` inside arithmetic, worked out."""
        for child in _descendants(node):
            if child.type == "expansion":
                self._state.spend(len(inner))
                inner = inner.replace(text_of(child), self._one(child) or "0", 1)
        return inner


def _descendants(node: Node) -> Iterable[Node]:
    for child in node.children:
        if child.type == "expansion":
            yield child
        else:
            yield from _descendants(child)
