"""`$@`, `${A[@]}` and parts of them: expansions that are as many words as an array has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from extractor.usecases.fromrun.bash.arithmetic import NotKnown, evaluate
from extractor.usecases.fromrun.bash.items import keys_of, values_of
from extractor.usecases.fromrun.bash.state import State
from extractor.usecases.fromrun.bash.syntax import text_of
from extractor.usecases.fromrun.unknowns import unknown

if TYPE_CHECKING:
    from tree_sitter import Node

# `${A[@]:1:2}`, `${@:2}`; what is after the colon is no sign of a default.
_PART = re.compile(
    r"\$\{(?P<name>@|\w+\[@\]):\s*(?P<start>[^-+?=:{}]+|\s-[0-9]+|\(-[0-9]+\))(?::(?P<count>[^:{}]+))?\}"
)
_JOINED = re.compile(r"\$\*|\$\{\*\}|\$\{!?\w+\[\*\]\}")


class Arrays:
    """Expansions of arrays and arguments.

    Args:
        state: Of the script.
        words: What a node inside expands to.
    """

    def __init__(self, state: State, words: Callable[[Node], list[str]]) -> None:
        self._state = state
        self._words = words

    def in_quotes(self, node: Node) -> list[str] | None:
        """Return the words of an array between quotes, where `${A[*]}` is one; None for anything else."""
        several = self.words(node)
        if several is not None and _JOINED.match(text_of(node)):
            return [self._separator().join(several)]
        return several

    def _separator(self) -> str:
        """Return what stands between the words of `"${A[*]}"`."""
        value = self._state.value("IFS")
        return value[:1] if isinstance(value, str) else " "

    def words(self, node: Node) -> list[str] | None:
        """Return the words of `$@`, `${A[@]}` and the like; None for anything else."""
        text = text_of(node)
        if text in ("$@", "$*", "${@}", "${*}"):
            return self._state.counted(list(self._state.arguments))
        part = _PART.fullmatch(text)
        if part is not None:
            return self._part(part["name"], part["start"], part["count"])
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

    def _part(self, name: str, start: str, count: str | None) -> list[str] | None:
        """`${A[@]:1:2}` and `${@:2}`: some of the words; None where it cannot be said which."""
        items = values_of(self._state.arguments if name == "@" else self._state.value(name.partition("[")[0]))
        if name == "@":
            items = [self._state.file, *items]
        try:
            first = evaluate(start, self._state.number)
            number = None if count is None else evaluate(count, self._state.number)
        except NotKnown:
            return [unknown(f"${{{name}:{start}}}")]
        if name == "@" and first == 0 and number is None:
            return self._state.counted(items)
        items = items[first:] if first >= 0 else items[len(items) + first :] if -first <= len(items) else []
        return self._state.counted(items if number is None or number < 0 else items[:number])

    def _behind(self, node: Node) -> list[str]:
        """`${A[@]+"${A[@]}"}`: the words behind the sign."""
        return [word for child in node.named_children[1:] for word in self._words(child)]
