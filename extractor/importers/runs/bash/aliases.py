"""`alias`: what stands for the first word of a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.quoting import end_of
from extractor.importers.runs.bash.state import State

if TYPE_CHECKING:
    from tree_sitter import Node

_BLANKS = re.compile(r"\s*")


class Aliases:
    """Keeps them, and puts what they stand for into commands.

    Args:
        state: Of the script.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._expanding: list[str] = []

    def told(self, words: list[str]) -> bool:
        """Carry out `alias`, `unalias` and `shopt -s expand_aliases`; False for any other command."""
        state = self._state
        if words[0] == "shopt":
            if "expand_aliases" in words:
                state.expands_aliases = "-s" in words
        elif words[0] == "alias":
            pairs = (word.partition("=") for word in words[1:] if "=" in word)
            state.aliases.update({name: text for name, _, text in pairs})
        elif words[0] == "unalias":
            for word in words[1:]:
                state.aliases.pop(word, None)
            if "-a" in words:
                state.aliases.clear()
        else:
            return False
        return True

    def expanded(self, command: Node, name: Node) -> tuple[str, str] | None:
        """Return the text of a command with what its name stands for, and that name; None: it is no alias."""
        state = self._state
        word = state.slice(name.start_byte, name.end_byte)
        if not state.expands_aliases or word not in state.aliases or word in self._expanding:
            return None
        text = state.aliases[word]
        rest = state.slice(name.end_byte, command.end_byte)
        if text[-1:].isspace():  # the next word may be one, too
            start = _BLANKS.match(rest)
            at = start.end() if start is not None else 0
            end = at
            while end < len(rest) and not rest[end].isspace():
                end = end_of(rest, end)
            rest = rest[:at] + state.aliases.get(rest[at:end], rest[at:end]) + rest[end:]
        state.spend(len(text) + len(rest))
        return f"{state.slice(command.start_byte, name.start_byte)}{text}{rest}", word

    def start(self, name: str) -> None:
        """Note that what a name stands for is read: it stands for itself there."""
        self._expanding.append(name)

    def end(self) -> None:
        """Note that it is read."""
        self._expanding.pop()
