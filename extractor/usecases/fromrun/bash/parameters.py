"""`${...}`: a variable with a default, a part of it, its length."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from extractor.usecases.fromrun.bash.items import key_of, keys_of, values_of
from extractor.usecases.fromrun.bash.state import State, scalar
from extractor.usecases.fromrun.bash.syntax import is_of_a_quoted_default, text_of
from extractor.usecases.fromrun.unknowns import number_of, unknown, unknowns

if TYPE_CHECKING:
    from tree_sitter import Node

_TRIMS = ("%", "%%", "#", "##")
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

    def expanded(self, node: Node) -> str:
        """Return what `${...}` stands for."""
        children = node.children[1:-1]
        if not children:
            return ""
        if children[0].type in ("#", "!"):
            return self._measured(children)
        first = children[0]
        name, value, known = self._named(first)
        if len(children) == 1:
            return value if known else self._state.variable(name)
        operation = children[1].type
        rest = self._state.slice(children[1].end_byte, node.end_byte - 1)
        if any(is_of_a_quoted_default(child) for child in children) and not _QUOTE.search(rest):
            operand = self._in_quotes(rest, node)
        else:
            operand = "".join(self._gapped(children[2:], children[1].end_byte, node.end_byte - 1))
        return self._operated(name, value if known else None, operation, operand, rest)

    def _operated(self, name: str, value: str | None, operation: str, operand: str, rest: str) -> str:
        empty = not value if operation.startswith(":") else value is None
        kind = operation.lstrip(":")
        if kind in ("-", "=", "?", "+"):
            return self._defaulted(name, value, kind, operand, empty)
        if value is None:
            return self._state.variable(name)
        if unknowns(value):
            return (
                _trimmed_partly(value, operand, operation) if operation in _TRIMS and not unknowns(operand) else value
            )
        if operation in _TRIMS:
            self._state.spend(len(value) * len(value) // 8)
            return _trimmed(value, operand, operation)
        if operation in ("/", "//", "/#", "/%"):
            pattern, _, new = rest.partition("/")
            pattern = self._loose(pattern)
            new = operand[len(pattern) + 1 :] if operand.startswith(f"{pattern}/") else self._loose(new)
            self._state.spend((value.count(pattern) if operation == "//" else 1) * len(new))
            if operation in ("/", "//") and re.search(r"[\[*?]", pattern):
                self._state.spend(len(value) ** 2 // 2 + len(value) * len(new))
                return _replaced(value, pattern, new, every=operation == "//")
            return value.replace(pattern, new, -1 if operation == "//" else 1)
        if operation in (",,", ","):
            return value.lower() if operation == ",," else value[:1].lower() + value[1:]
        if operation in ("^^", "^"):
            return value.upper() if operation == "^^" else value[:1].upper() + value[1:]
        if operation == ":":
            return _substring(value, rest)
        return unknown(f"${{{name}{operation}{rest}}}")

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

    def _loose(self, text: str) -> str:
        return re.sub(r"\$\{?(\w+)\}?", lambda found: self._state.variable(found[1]), text).strip("\"'")

    def _measured(self, children: list[Node]) -> str:
        target = children[-1]
        if children[0].type == "!":
            inner = self._state.variable(text_of(target))
            return inner if unknowns(inner) else self._state.variable(inner)
        name = text_of(target.children[0]) if target.type == "subscript" else text_of(target)
        value = self._state.value(name)
        if isinstance(value, str) and unknowns(value):
            return unknown(f"#{name}")
        if name in ("@", "*"):
            return str(len(self._state.arguments))
        if target.type != "subscript":
            return str(len(self._state.variable(name) if value is None else scalar(value)))
        if text_of(target.named_children[-1]) in ("@", "*"):
            return str(len(values_of(value)))
        return str(len(self._named(target)[1]))

    def _named(self, node: Node) -> tuple[str, str, bool]:
        """Name and value of what an expansion is about, and whether it is set."""
        if node.type == "subscript":
            name = text_of(node.children[0])
            array = self._state.value(name)
            place = key_of(self._state, array, self._text(node.named_children[-1]))
            self._state.spend(len(array or ""))
            items = dict(zip(keys_of(array), values_of(array), strict=True))
            return name, items.get(place or "", ""), place in items
        name = text_of(node)
        if number_of(name) is not None or name in ("@", "*", "#"):
            value = self._state.variable(name)
            return name, value, bool(value)
        value_or = self._state.value(name)
        return name, scalar(value_or or ""), value_or not in (None, [], {})

    def _gapped(self, nodes: list[Node], start: int, end: int) -> Iterable[str]:
        """Nodes with the blanks between them, as they stand in the source."""
        at = start
        for node in nodes:
            yield self._state.slice(at, node.start_byte)
            yield self._text(node)
            at = node.end_byte
        yield self._state.slice(at, end)


def _fits(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern.replace("[^", "[!"))


def _trimmed(value: str, pattern: str, operation: str) -> str:
    lengths = range(len(value) + 1)
    longest = len(operation) == 2
    for length in reversed(lengths) if longest else lengths:
        if operation.startswith("%") and _fits(value[len(value) - length :], pattern):
            return value[: len(value) - length]
        if operation.startswith("#") and _fits(value[:length], pattern):
            return value[length:]
    return value


def _trimmed_partly(value: str, pattern: str, operation: str) -> str:
    """Return a text of which a part is not known, trimmed where the known end of it decides that; else as it is."""
    first, last = value.index(unknown("")[0]), value.rindex(unknown("")[-1]) + 1
    before, after = value[:first], value[last:]
    if not re.search(r"[\[*?\\]", pattern):
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


def _replaced(value: str, pattern: str, new: str, *, every: bool) -> str:
    """Return a text with the longest pieces that fit a pattern replaced, as bash does."""
    found, at = "", 0
    while at < len(value):
        end = next((stop for stop in range(len(value), at, -1) if _fits(value[at:stop], pattern)), None)
        if end is None:
            found, at = found + value[at], at + 1
            continue
        found, at = found + new, end
        if not every:
            break
    return found + value[at:]


def _substring(value: str, rest: str) -> str:
    match = re.fullmatch(r"\s*(-?[0-9]{1,18})\s*(?::\s*(-?[0-9]{1,18}))?\s*", rest)
    if match is None:
        return unknown(f"{value}:{rest}")
    start = int(match[1])
    tail = value[start:] if start >= 0 else value[len(value) + start :]
    if match[2] is None:
        return tail
    return tail[: int(match[2])]
