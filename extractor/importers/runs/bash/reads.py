"""`read` and `mapfile`: what they take from documents, files of the checkout, and what harmless commands print."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.expansion import Expansion
from extractor.importers.runs.bash.inputs import Input
from extractor.importers.runs.bash.state import State, split, split_once
from extractor.importers.runs.bash.syntax import text_of
from extractor.importers.runs.unknowns import number_of, unknown, unknowns
from extractor.values import limits

if TYPE_CHECKING:
    from tree_sitter import Node

_WITH_VALUES = {"read": "adinNptu", "mapfile": "CcdnOsu"}
# Options that change what is taken in ways that are not followed.
_OTHER = {"read": "nNu", "mapfile": "CcOu"}


class Reads:
    """Carries them out.

    Args:
        state: Of the script.
        expansion: Works out words.
    """

    def __init__(self, state: State, expansion: Expansion) -> None:
        self._state = state
        self._expansion = expansion

    def input(self, node: Node) -> Input | None:
        """Return what a statement reads by its redirections; None: it has none for that."""
        found: Input | None = None
        last = ""
        for child in node.children:
            if child.type == "heredoc_redirect":
                found = Input(self._expansion.document(child))
            elif child.type == "herestring_redirect" or (child.type == "file_redirect" and last == "<<"):
                found = Input(f"{self._expansion.one(child.named_children[-1])}\n")
            elif child.type == "file_redirect" and child.children[0].type == "<" and len(child.named_children) == 1:
                found = Input(self._source(child.named_children[0]))
            last = text_of(child) if child.type == "ERROR" else ""
        if found is not None and any("\n" in name for name in unknowns(found.text or "")):
            found = Input(None)
        return found

    def read(self, words: list[str], before: Mapping[str, str]) -> bool | None:
        """`IFS=, read -ra A`: false where the end is met before a line ends; None where what is read is not known."""
        options, names = _options("read", words)
        names = [*([options["a"]] if "a" in options else []), *names]
        there = self._state.input
        if there is None or there.text is None or set(options) & set(_OTHER["read"]):
            for name in names or ["REPLY"]:
                self._state.put(name, unknown(name))
            return None
        mark = options.get("d", "\n")[:1]
        text, ended = there.record(mark)
        while "r" not in options and ended and re.search(r"(?<!\\)(?:\\\\)*\\\Z", text):
            more, ended = there.record(mark)
            text = text[:-1] + more
        self._state.spend(len(text))
        separators = before.get("IFS", self._state.separators())
        if "r" not in options:
            text = re.sub(r"\\(.)", r"\1", text)
        if "a" in options:
            self._state.put(options["a"], self._state.counted(split(text, separators)))
        elif not names:
            self._state.put("REPLY", text)
        else:
            for name, value in zip(names, _fields(text, separators, len(names)), strict=True):
                self._state.put(name, value)
        return ended

    def mapfile(self, words: list[str]) -> bool | None:
        """`mapfile -t LINES`."""
        options, names = _options("mapfile", words)
        name = names[0] if names else "MAPFILE"
        there = self._state.input
        numbers = {letter: number_of(options.get(letter, "0")) for letter in "ns"}
        if there is None or there.text is None or set(options) & set(_OTHER["mapfile"]) or None in numbers.values():
            self._state.put(name, unknown(name))
            return None
        mark = options.get("d", "\n")[:1] or "\0"
        lines: list[str] = []
        while there.at < len(there.text) and len(lines) <= limits.MAX_WORDS:
            line, ended = there.record(mark)
            lines.append(line if "t" in options or not ended else line + mark)
        first, count = numbers["s"] or 0, numbers["n"] or 0
        lines = lines[first : first + count] if count else lines[first:]
        self._state.put(name, self._state.counted(lines))
        return True

    def _source(self, node: Node) -> str | None:
        """Return what is behind `<`: a file of the checkout, or what a command prints; None: it is not known."""
        if node.type == "process_substitution":
            text = self._expansion.output(node)
            return None if unknowns(text) == (text[1:-1],) else text
        return self._state.content(self._expansion.one(node))


def _options(name: str, words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options of a command, with their values, and what is behind them."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        for place, letter in enumerate(word[1:], 2):
            if letter in _WITH_VALUES[name]:
                found[letter] = word[place:] or (rest.pop(0) if rest else "")
                break
            found[letter] = ""
    return found, rest


def _fields(text: str, separators: str, count: int) -> list[str]:
    """Return as many fields of a line as variables are set: the last has the rest."""
    blanks = "".join(letter for letter in separators if letter in " \t\n")
    rest = text.strip(blanks) if blanks else text
    found: list[str] = []
    while len(found) < count - 1:
        field, rest = split_once(rest, separators)
        found.append(field)
    field, behind = split_once(rest, separators)
    return [*found, rest if behind else field]
