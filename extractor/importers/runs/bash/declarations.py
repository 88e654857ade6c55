"""`local`, `declare`, `export`, `unset` and `alias`: what is said of a name besides its value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.expansion import Expansion
from extractor.importers.runs.bash.items import key_of, without_item
from extractor.importers.runs.bash.state import State
from extractor.importers.runs.bash.syntax import grouped, text_of
from extractor.importers.runs.unknowns import unknowns

if TYPE_CHECKING:
    from tree_sitter import Node

_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<sign>\+?=)(?P<value>.*)", re.DOTALL)
_ITEM = re.compile(r"(?P<name>[A-Za-z_]\w*)\[(?P<key>.+)\]", re.DOTALL)
# Attributes that change what an assignment does: a number, a name of another variable, small and capital letters.
_ATTRIBUTES = "inlu"


class Declarations:
    """Carries them out.

    Args:
        state: Of the script.
        expansion: Works out words.
    """

    def __init__(self, state: State, expansion: Expansion) -> None:
        self._state = state
        self._expansion = expansion

    def declared(self, node: Node) -> bool:
        """`local X=1`, `declare -i N`, `export X`, `readonly X=1`."""
        kind = node.children[0].type
        flags, taken = self._flags(node)
        if kind in ("declare", "typeset") and set(flags) & set("pfF"):
            return True
        exports = (kind == "export" and "n" not in flags) or "x" in flags
        if kind in ("export", "readonly"):
            flags = ""
        own = kind in ("local", "declare", "typeset") and self._state.scopes.inside and "g" not in flags
        for group in grouped(node.children[1:], self._state.source):
            child = group[0]
            if child.id in taken:
                continue
            if child.type == "variable_assignment":
                self._assigned(child, flags, own)
                names = [text_of(child.children[0])]
            elif child.type == "variable_name" and len(group) == 1:
                self._named(text_of(child), flags, own)
                names = [text_of(child)]
            else:
                names = self._worked_out(group, flags, own)
            self._state.exported.update(names if exports else ())
        return True

    def unset(self, node: Node) -> bool:
        """`unset X`, `unset 'A[1]'`, `unset -f NAME`."""
        words = self._expansion.words_of(node.children[1:])
        flags = "".join(word[1:] for word in words if word.startswith("-"))
        for word in words:
            item = _ITEM.fullmatch(word)
            if word.startswith("-"):
                continue
            if "f" in flags:
                self._state.functions.pop(word, None)
            elif item is not None:
                self._item_unset(item["name"], item["key"])
            else:
                name = word if "n" in flags else self._state.name(word)
                self._state.attributes.pop(name, None)
                self._state.exported.discard(name)
                self._state.variables[name] = []
        return True

    def _flags(self, node: Node) -> tuple[str, set[int]]:
        words = [child for child in node.named_children if child.type == "word" and text_of(child)[:1] in ("-", "+")]
        return "".join(text_of(word)[1:] for word in words if text_of(word)[0] == "-"), {word.id for word in words}

    def _assigned(self, node: Node, flags: str, own: bool) -> None:
        """Carry out `local X=1`: its value is worked out where X is still the caller's."""
        self._expansion.assign(node, lambda name: self._marked(name, flags, own))

    def _named(self, name: str, flags: str, own: bool) -> None:
        self._marked(name, flags, own)
        value = self._state.variables.get(name)
        if "A" in flags and (value is None or value == []):
            self._state.variables[name] = {}

    def _worked_out(self, group: Sequence[Node], flags: str, own: bool) -> list[str]:
        """Carry out `declare "$NAME=$VALUE"`; the names of what it sets."""
        names = []
        for word in self._expansion.words_of(group):
            found = _ASSIGNED.fullmatch(word)
            if found is not None:
                name = found["name"]
                self._marked(name, flags, own)
                old = self._state.value(name) if found["sign"] == "+=" else None
                self._state.put(name, f"{old if isinstance(old, str) else ''}{found['value']}")
            elif re.fullmatch(r"[A-Za-z_]\w*", word) and not unknowns(word):
                name = word
                self._named(name, flags, own)
            else:
                continue
            names.append(name)
        return names

    def _marked(self, name: str, flags: str, own: bool) -> None:
        if own:
            self._state.scopes.local(name)
        marks = "".join(sorted({*self._state.attributes.get(name, ""), *(set(flags) & set(_ATTRIBUTES))}))
        if marks:
            self._state.attributes[name] = marks

    def _item_unset(self, name: str, key: str) -> None:
        name = self._state.name(name)
        value = self._state.variables.get(name)
        self._state.spend(20 * len(value or ""))
        place = key_of(self._state, value, key.strip("\"'"))
        if place is not None and isinstance(value, (dict, list)):
            self._state.variables[name] = without_item(value, place)
