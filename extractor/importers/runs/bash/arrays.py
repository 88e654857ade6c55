"""`$@`, `${A[@]}` and parts of them: expansions that are as many words as an array has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.arithmetic import NotKnown, evaluate
from extractor.importers.runs.bash.items import Sparse, keys_of, values_of
from extractor.importers.runs.bash.parameters import OPERATION, Parameters
from extractor.importers.runs.bash.state import State
from extractor.importers.runs.bash.syntax import text_of
from extractor.importers.runs.unknowns import unknown

if TYPE_CHECKING:
    from tree_sitter import Node

# `${A[@]:1:2}`, `${@:2}`; what is after the colon is no sign of a default.
_PART = re.compile(
    r"\$\{(?P<name>[@*]|\w+\[[@*]\]):\s*(?P<start>[^-+?=:{}]+|\s-[0-9]+|\(-[0-9]+\))(?::(?P<count>[^:{}]+))?\}"
)
_JOINED = re.compile(r"\$\*|\$\{\*|\$\{!?\w+\[\*\]")
_EACH = re.compile(r"\$\{(?P<name>[@*]|\w+\[[@*]\])(?P<rest>[#%/^,@].*)\}", re.DOTALL)


class Arrays:
    """Expansions of arrays and arguments.

    Args:
        state: Of the script.
        words: What a node inside expands to.
        parameters: Works out what is done with each item.
    """

    def __init__(self, state: State, words: Callable[[Node], list[str]], parameters: Parameters) -> None:
        self._state = state
        self._words = words
        self._parameters = parameters

    def in_quotes(self, node: Node) -> list[str] | None:
        """Return the words of an array between quotes, where `${A[*]}` is one; None for anything else."""
        several = self._items(node)
        if several is not None and _JOINED.match(text_of(node)):
            return [self._separator().join(several)]
        return several

    def _separator(self) -> str:
        """Return what stands between the words of `"${A[*]}"`."""
        value = self._state.value("IFS")
        return value[:1] if isinstance(value, str) else " "

    def words(self, node: Node) -> list[str] | None:
        """Return the words of `$@`, `${A[@]}` and the like outside of quotes; None for anything else."""
        several = self._items(node)
        if several is None or "+" in text_of(node) or "-" in text_of(node):  # what is behind these is split already
            return several
        return [word for item in several for word in self._state.split(item)]

    def _items(self, node: Node) -> list[str] | None:
        """Return the items of `$@`, `${A[@]}` and the like; None for anything else."""
        text = text_of(node)
        if text in ("$@", "$*", "${@}", "${*}"):
            return self._state.counted(list(self._state.arguments))
        part = _PART.fullmatch(text)
        if part is not None:
            return self._part(part["name"], part["start"], part["count"])
        each = _EACH.fullmatch(text)
        if each is not None:
            return self._each(each["name"], each["rest"], node)
        keys = re.fullmatch(r"\$\{!(\w+)\[[@*]\]\}", text)
        if keys is not None:
            return self._state.counted(keys_of(self._state.value(keys[1])))
        match = re.fullmatch(r"\$\{(\w+)\[[@*]\](?::?[-+].*)?\}", text, re.DOTALL)
        if match is not None:
            value = self._state.value(match[1])
            if ":+" in text or "]+" in text:
                return self._behind(node) if value else []
            if not value and re.match(r".*\]:?-", text, re.DOTALL):
                return self._behind(node)
            return self._state.counted(values_of(value))
        return None

    def _all(self, name: str) -> list[str]:
        return values_of(self._state.arguments if name in ("@", "*") else self._state.value(name.partition("[")[0]))

    def _each(self, name: str, rest: str, node: Node) -> list[str] | None:
        """`${A[@]/old/new}`, `${A[@]#x}`, `${A[@]@Q}`: the same done with each item."""
        found = OPERATION.fullmatch(rest)
        if found is None:
            return None
        operation, operand = found["operation"], found["rest"]
        items = [self._parameters.operated(name, item, operation, operand, node) for item in self._all(name)]
        return self._state.counted(items)

    def _part(self, name: str, start: str, count: str | None) -> list[str] | None:
        """`${A[@]:1:2}` and `${@:2}`: some of the words; None where it cannot be said which."""
        held = None if name in ("@", "*") else self._state.value(name.partition("[")[0])
        items = self._all(name)
        if name in ("@", "*"):
            items = [self._state.file, *items]
        try:
            first = evaluate(start, self._state.number)
            number = None if count is None else evaluate(count, self._state.number)
        except NotKnown:
            return [unknown(f"${{{name}:{start}}}")]
        if name in ("@", "*") and first == 0 and number is None:
            return self._state.counted(items)
        if isinstance(held, Sparse):  # what counts is the places
            first += 1 + int(list(held)[-1]) if first < 0 else 0
            items, first = [item for place, item in held.items() if int(place) >= first >= 0], 0
        items = items[first:] if first >= 0 else items[len(items) + first :] if -first <= len(items) else []
        return self._state.counted(items if number is None or number < 0 else items[:number])

    def _behind(self, node: Node) -> list[str]:
        """`${A[@]+"${A[@]}"}`: the words behind the sign."""
        return [word for child in node.named_children[1:] for word in self._words(child)]
