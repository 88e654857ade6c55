"""`[ ... ]`, `[[ ... ]]` and `((...))`: what holds, what does not, and what cannot be known."""

from __future__ import annotations

import re
import warnings
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.usecases.fromrun.bash.arithmetic import NotKnown, evaluate
from extractor.usecases.fromrun.bash.expansion import Expansion
from extractor.usecases.fromrun.bash.state import State
from extractor.usecases.fromrun.bash.syntax import text_of
from extractor.usecases.fromrun.unknowns import unknown, unknowns

if TYPE_CHECKING:
    from tree_sitter import Node

# A pattern with more repetitions than this, or a longer text, is not searched for: time grows with their power.
_REPEATS = 3
_LONGEST = 200
_OF_FILES = {"-e": Path.exists, "-f": Path.is_file, "-r": Path.exists, "-s": Path.is_file, "-d": Path.is_dir}
_CHANGE = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:(?P<step>\+\+|--)|(?P<operation>[-+*/%]?=)(?!=)\s*(?P<operand>.+))")


class Conditions:
    """Tests; None stands for what is not known.

    Args:
        state: Of the script.
        expansion: Works out the words that are compared.
    """

    def __init__(self, state: State, expansion: Expansion) -> None:
        self._state = state
        self._expansion = expansion

    def brackets(self, node: Node) -> bool | None:
        """Return whether `[ ... ]`, `[[ ... ]]` or `((...))` holds."""
        if node.children and node.children[0].type == "((":
            return self.arithmetic(node)
        return self._condition(node.named_children[0]) if node.named_children else False

    def arithmetic(self, node: Node) -> bool | None:
        """Return whether `((...))` holds."""
        return self.computed(self._state.slice(node.children[0].end_byte, node.children[-1].start_byte))

    def computed(self, inner: str) -> bool | None:
        """Carry out an expression such as `i = 0`, `i++` or `i < n`; whether it is other than 0."""
        change = _CHANGE.fullmatch(inner.strip())
        if change is not None:
            return self._changed(change["name"], change["step"] or change["operation"], change["operand"] or "1")
        try:
            return evaluate(inner, self._state.number) != 0
        except NotKnown:
            return None

    def _changed(self, name: str, operation: str, operand: str) -> bool | None:
        """Carry out `((X++))`, `((X += 2))` or `((X = 2))`."""
        sign = operation.removesuffix("=")[:1]
        try:
            value = evaluate(f"{name} {sign} ({operand})" if sign else operand, self._state.number)
        except NotKnown:
            self._state.put(name, unknown(name))
            return None
        self._state.put(name, str(value))
        return value != 0

    def _condition(self, node: Node) -> bool | None:
        """Return what stands between brackets."""
        if node.type == "parenthesized_expression":
            return self._condition(node.named_children[0])
        operators = [child.type for child in node.children if not child.is_named]
        if node.type == "binary_expression" and operators and operators[0] in ("&&", "||", "-a", "-o"):
            left, right = (self._condition(child) for child in (node.named_children[0], node.named_children[-1]))
            if operators[0] in ("&&", "-a"):
                return False if False in (left, right) else None if None in (left, right) else True
            return True if True in (left, right) else None if None in (left, right) else False
        if node.type == "unary_expression" and node.children[0].type == "!":
            inner = self._condition(node.named_children[-1])
            return None if inner is None else not inner
        words = []
        for child in node.children:
            if child.type in ("test_operator",) or not child.is_named:
                words.append(text_of(child))
            elif child.type in ("extglob_pattern", "regex"):
                words.append(self._state.source[child.start_byte : child.end_byte].decode().strip("\"'"))
            else:
                words.append(self._expansion.one(child))
        if node.type not in ("binary_expression", "unary_expression"):
            words = [self._expansion.one(node)]
        return self.test(words)

    def test(self, words: list[str]) -> bool | None:
        """Return whether what `test` is given holds."""
        if words and words[0] == "!":
            inner = self.test(words[1:])
            return None if inner is None else not inner
        if len(words) == 2 and words[0] in ("-z", "-n") and unknowns(words[1]) == (words[1][1:-1],):
            # As `${X:-}` does: what nothing has set is empty, and `--set` sets it.
            words = [words[0], words[1] if words[1][1:-1] in self._state.variables or "$" in words[1] else ""]
        if any(unknowns(word) for word in words):
            return None
        if len(words) == 1:
            return bool(words[0])
        if len(words) == 2:
            if words[0] == "-v":
                return words[1] in self._state.variables
            if words[0] in _OF_FILES:
                found = self._state.found(words[1])  # what is not there now may be on the machine of the run
                return None if found is None else _OF_FILES[words[0]](found)
            return {"-z": not words[1], "-n": bool(words[1])}.get(words[0])
        return self._compared(*words) if len(words) == 3 else None

    def _compared(self, left: str, operation: str, right: str) -> bool | None:
        if operation in ("=", "=="):
            return fnmatchcase(left, right)
        if operation == "!=":
            return not fnmatchcase(left, right)
        if operation == "=~":
            return _found(right, left)
        compare = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}.get(operation, operation)
        try:
            return bool(evaluate(f"{left or 0} {compare} {right or 0}", self._state.number))
        except NotKnown:
            return None


def _found(pattern: str, text: str) -> bool | None:
    """Search for a script's own pattern; None where that is none, or one that could take for ever."""
    simple = len(text) <= _LONGEST and len(pattern) <= _LONGEST and not re.search(r"\)\s*[*+?{]", pattern)
    if not simple or len(re.findall(r"[*+?{]", pattern)) > _REPEATS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        return None
