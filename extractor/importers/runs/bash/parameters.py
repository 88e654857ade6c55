"""`${...}`: a variable with a default, a part of it, its length."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.arithmetic import NotKnown, evaluate
from extractor.importers.runs.bash.items import key_of, keys_of, values_of
from extractor.importers.runs.bash.patterns import fits, is_literal, meant, replaced, trimmed
from extractor.importers.runs.bash.quoting import unquoted
from extractor.importers.runs.bash.state import State, scalar
from extractor.importers.runs.bash.syntax import is_of_a_quoted_default, text_of
from extractor.importers.runs.bash.texts import Texts
from extractor.importers.runs.unknowns import number_of, unknown, unknowns

if TYPE_CHECKING:
    from tree_sitter import Node

TRIMS = ("%", "%%", "#", "##")
DEFAULTS = ("-", "=", "?", "+")
# What is done with a variable, and with what.
OPERATION = re.compile(r"(?P<operation>:?[-=?+]|##?|%%?|//|/[#%]?|\^\^?|,,?|:|@)(?P<rest>.*)", re.DOTALL)
_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')


class Parameters:
    """Expansions of one variable each.

    Args:
        state: Of the script.
        text: What a node inside expands to.
        in_quotes: What a text between double quotes expands to, which stands where a node does.
    """

    def __init__(self, state: State, text: Callable[[Node], str], in_quotes: Callable[[str, Node], str]) -> None:
        self._state = state
        self._text = text
        self._in_quotes = in_quotes
        self._texts = Texts(state, in_quotes)

    def expanded(self, node: Node) -> str:
        """Return what `${...}` stands for."""
        children = node.children[1:-1]
        if not children:
            return ""
        if children[0].type == "#" and len(children) > 1:
            return self._measured(children[-1])
        if children[0].type == "!" and len(children) > 1:
            name, value = self._meant(children[1])
            children = children[1:]
            if unknowns(name):
                return name
        else:
            name, value = self._named(children[0])
        if len(children) == 1:
            return self._without(name, children[0]) if value is None else value
        found = OPERATION.match(self._state.slice(children[0].end_byte, node.end_byte - 1))
        if found is None:
            return unknown(f"${{{text_of(node)}}}")
        operation, rest = found["operation"], found["rest"]
        kind = operation.lstrip(":")
        if operation != ":" and kind in DEFAULTS:
            operand = self._operand(node, rest, len(node.children) - len(children))
            return self._defaulted(name, value, kind, operand, not value if operation != kind else value is None)
        if value is None:
            return self._without(name, children[0])
        return self.operated(name, value, operation, rest, node)

    def _without(self, name: str, node: Node) -> str:
        """Return what a variable without a value stands for; an item that an array does not have is empty."""
        held = self._state.value(name)
        if node.type != "subscript" or held is None:
            return self._state.variable(name)
        # A word that is not known may be several.
        return next((item for item in values_of(held) if unknowns(item) == (item[1:-1],)), "")

    def _operand(self, node: Node, rest: str, first: int) -> str:
        """Return the text behind `:-` and the like."""
        children = node.children[first:-1]
        if any(is_of_a_quoted_default(child) for child in children) and not _QUOTE.search(rest):
            return self._in_quotes(rest, node)
        start = node.end_byte - 1 - len(rest.encode())
        inner = [child for child in children if child.start_byte >= start]
        return "".join(self._gapped(inner, start, node.end_byte - 1))

    def operated(self, name: str, value: str, operation: str, rest: str, node: Node) -> str:
        """Return what an operation makes of a text.

        Args:
            name: The variable that has it.
            value: The text.
            operation: `#`, `%%`, `//`, `^^`, `:`, `@` and the like.
            rest: What stands behind that.
            node: The expansion.
        """
        if operation == "@":
            return _transformed(name, value, rest)
        if operation == ":":
            return value if unknowns(value) else self._substring(name, value, rest, node)
        if operation in TRIMS:
            return self._trimmed(name, value, self._texts.pattern(rest, node), operation)
        if unknowns(value):
            return value
        if operation[0] in ",^":
            return self._cased(value, self._texts.pattern(rest, node), operation)
        return self._replaced(name, value, operation, rest, node)

    def _trimmed(self, name: str, value: str, pattern: str, operation: str) -> str:
        if unknowns(pattern):
            return unknown(unknowns(pattern)[0])
        if unknowns(value):
            return _trimmed_partly(value, pattern, operation)
        self._state.spend(len(value) + len(value) * len(pattern) // 64)
        found = trimmed(value, pattern, operation)
        return unknown(name) if found is None else found

    def _cased(self, value: str, pattern: str, operation: str) -> str:
        """`${X^^}`, `${X,[A-C]}`: the letters that fit a pattern, or the first, in the other case."""
        change = str.upper if operation[0] == "^" else str.lower
        self._state.spend(len(value))
        place = len(value) if len(operation) == 2 else 1
        changed = {letter for letter in set(value[:place]) if fits(letter, pattern or "?")}
        return "".join(change(letter) if letter in changed else letter for letter in value[:place]) + value[place:]

    def _replaced(self, name: str, value: str, operation: str, rest: str, node: Node) -> str:
        """`${X/old/new}`, `${X//old/new}`, `${X/#old/new}` and `${X/%old/new}`."""
        # Behind "//" a slash is what is replaced.
        end = unquoted(rest, "/", 1 if operation == "//" else 0)
        old, new = (rest, "") if end < 0 else (rest[:end], rest[end + 1 :])
        pattern = self._texts.pattern(old, node)
        if unknowns(pattern):
            return unknown(unknowns(pattern)[0])
        new = self._texts.plain(new, node)
        self._state.spend(len(value) * (1 + len(new) + len(pattern) // 64))
        if operation in ("/#", "/%"):
            left = trimmed(value, pattern, "##" if operation == "/#" else "%%")
            if left is None:
                return unknown(name)
            if left == value and pattern:
                return value
            return f"{new}{left}" if operation == "/#" else f"{left}{new}"
        if is_literal(pattern):
            old = meant(pattern)
            return value.replace(old, new, -1 if operation == "//" else 1) if old else value
        found = replaced(value, pattern, new, every=operation == "//")
        return unknown(name) if found is None else found

    def _substring(self, name: str, value: str, rest: str, node: Node) -> str:
        """`${X:2:3}`, `${X: -1}`, `${X:$I}`."""
        try:
            places = [evaluate(part, self._state.number) for part in self._in_quotes(rest, node).split(":")]
        except NotKnown:
            places = []
        if not 1 <= len(places) <= 2:
            return unknown(f"${{{name}:{rest}}}")
        start = places[0] if places[0] >= 0 else len(value) + places[0]
        tail = value[start:] if start >= 0 else ""
        return tail if len(places) == 1 else tail[: places[1]]

    def _defaulted(self, name: str, value: str | None, kind: str, operand: str, empty: bool) -> str:
        """`${X:-y}`, `${X:=y}`, `${X:?why}` and `${X:+y}`."""
        if kind == "+":
            return "" if empty else operand
        if not empty and value is not None:
            return value
        if kind == "?":  # the script ends without it
            self._state.put(name, unknown(name))
            return unknown(name)
        if kind == "=":
            self._state.put(name, operand)
        return operand

    def _measured(self, target: Node) -> str:
        """`${#X}`: of a text its length, of all items their number."""
        name = text_of(target.children[0]) if target.type == "subscript" else text_of(target)
        if name in ("@", "*"):
            return str(len(self._state.arguments))
        value = self._state.value(name)
        if isinstance(value, str) and unknowns(value):
            return unknown(f"#{name}")
        if target.type == "subscript" and text_of(target.named_children[-1]) in ("@", "*"):
            return str(len(values_of(value)))
        return str(len(self._named(target)[1] or ""))

    def _meant(self, node: Node) -> tuple[str, str | None]:
        """`${!X}`: name and value of what the text of X names; a stand-in for the name where that is not known."""
        if "n" in self._state.attributes.get(text_of(node), ""):
            return text_of(node), self._state.name(text_of(node))
        name, value = self._named(node)
        inner = self._state.variable(name) if value is None else value
        item = re.fullmatch(r"(\w+)\[(.+)\]", inner)
        if item is not None:
            array = self._state.value(item[1])
            place = key_of(self._state, array, item[2])
            return inner, dict(zip(keys_of(array), values_of(array), strict=True)).get(place or "")
        return (inner, None) if unknowns(inner) else self._text_named(inner)

    def _named(self, node: Node) -> tuple[str, str | None]:
        """Name and value of what an expansion is about; None: it has none."""
        if node.type == "subscript":
            name = text_of(node.children[0])
            array = self._state.value(name)
            place = key_of(self._state, array, self._text(node.named_children[-1]))
            self._state.spend(len(array or ""))
            items = dict(zip(keys_of(array), values_of(array), strict=True))
            return name, items.get(place or "")
        return self._text_named(text_of(node))

    def _text_named(self, name: str) -> tuple[str, str | None]:
        if number_of(name) is not None or name in ("@", "*", "#"):
            value = self._state.variable(name)
            return name, value or None
        held = self._state.value(name)
        return name, None if held is None or held in ([], {}) else scalar(held)

    def _gapped(self, nodes: list[Node], start: int, end: int) -> Iterable[str]:
        """Nodes with the blanks between them, as they stand in the source."""
        at = start
        for node in nodes:
            yield self._state.slice(at, node.start_byte)
            yield self._text(node)
            at = node.end_byte
        yield self._state.slice(at, end)


def _trimmed_partly(value: str, pattern: str, operation: str) -> str:
    """Return a text of which a part is not known, trimmed where the known end of it decides that; else as it is."""
    first, last = value.index(unknown("")[0]), value.rindex(unknown("")[-1]) + 1
    before, after = value[:first], value[last:]
    if is_literal(pattern):
        pattern = meant(pattern)
        if operation.startswith("#"):
            return value[len(pattern) :] if before.startswith(pattern) else value
        return value[: len(value) - len(pattern)] if pattern and after.endswith(pattern) else value
    found = re.fullmatch(r"(\*?)([^\[*?\\]+)(\*?)", pattern)
    if found is None or bool(found[1]) == bool(found[3]):
        return value
    mark = found[2]
    if operation == "##" and found[1] and mark in after:
        return after.rpartition(mark)[2]
    if operation == "#" and found[1] and mark in before:
        return value.partition(mark)[2]
    if operation == "%" and found[3] and mark in after:
        return value.rpartition(mark)[0]
    return before.partition(mark)[0] if operation == "%%" and found[3] and mark in before else value


def _transformed(name: str, value: str, rest: str) -> str:
    """`${X@Q}`, `${X@U}`, `${X@u}` and `${X@L}`."""
    if rest == "Q" and not re.search(r"[\x00-\x1f\x7f]", value):
        return "'{}'".format(value.replace("'", "'\\''"))
    known: dict[str, Callable[[str], str]] = {
        "U": str.upper,
        "L": str.lower,
        "u": lambda text: text[:1].upper() + text[1:],
    }
    return known[rest](value) if rest in known and not unknowns(value) else unknown(f"${{{name}@{rest}}}")
