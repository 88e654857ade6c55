"""`[ ... ]`, `[[ ... ]]` and `((...))`: what holds, what does not, and what cannot be known."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.arithmetic import NotKnown, evaluate
from extractor.importers.runs.bash.expansion import Expansion
from extractor.importers.runs.bash.patterns import fits
from extractor.importers.runs.bash.state import State
from extractor.importers.runs.bash.syntax import text_of
from extractor.importers.runs.unknowns import unknowns

if TYPE_CHECKING:
    from tree_sitter import Node

# A pattern with more repetitions than this, or a longer text, is not searched for: time grows with their power.
_REPEATS = 3
_LONGEST = 200
_MOST_WAYS = 200_000
_OF_FILES = {"-e": Path.exists, "-f": Path.is_file, "-r": Path.exists, "-s": Path.is_file, "-d": Path.is_dir}


_NESTED = ("binary_expression", "unary_expression", "parenthesized_expression", "ERROR")
_BRACKETS = (b"\\(", b"\\)")
_BETWEEN = ("&&", "||", "-a", "-o", ")", "\\)")


class Conditions:
    """Tests; None stands for what is not known.

    Args:
        state: Of the script.
        expansion: Works out the words that are compared.
    """

    def __init__(self, state: State, expansion: Expansion) -> None:
        self._state = state
        self._expansion = expansion
        # Whether what stands behind `=` is a pattern: in `[[`, not in `[`.
        self._patterns = False

    def brackets(self, node: Node) -> bool | None:
        """Return whether `[ ... ]`, `[[ ... ]]` or `((...))` holds."""
        if node.children and node.children[0].type == "((":
            return self.arithmetic(node)
        kept, self._patterns = self._patterns, node.children[0].type == "[["
        try:
            tokens = _tokens(list(_flat(node.children[1:-1])), self._state.source)
            self._state.spend(len(tokens) ** 2)
            return self._either(tokens) if tokens else False
        finally:
            self._patterns = kept

    def arithmetic(self, node: Node) -> bool | None:
        """Return whether `((...))` holds."""
        return self.computed(self._state.slice(node.children[0].end_byte, node.children[-1].start_byte))

    def computed(self, inner: str) -> bool | None:
        """Carry out an expression such as `i = 0`, `i++` or `i < n`; whether it is other than 0."""
        value = self._expansion.numbers.computed(inner)
        return None if value is None else value != 0

    def _either(self, tokens: list[list[Node]]) -> bool | None:
        """Return what stands between brackets; the parser does not know what binds more than what else."""
        found = [self._all(tokens)]
        while tokens and _sign(tokens[0]) in ("||", "-o"):
            tokens.pop(0)
            found.append(self._all(tokens))
        return True if True in found else None if None in found else False

    def _all(self, tokens: list[list[Node]]) -> bool | None:
        found = [self._one(tokens)]
        while tokens and _sign(tokens[0]) in ("&&", "-a"):
            tokens.pop(0)
            found.append(self._one(tokens))
        return False if False in found else None if None in found else True

    def _one(self, tokens: list[list[Node]]) -> bool | None:
        sign = _sign(tokens[0]) if len(tokens) > 1 else ""
        if sign == "!":
            tokens.pop(0)
            inner = self._one(tokens)
            return None if inner is None else not inner
        if sign in ("(", "\\("):
            tokens.pop(0)
            outcome = self._either(tokens)
            del tokens[:1]
            return outcome
        end = next((place for place, token in enumerate(tokens) if _sign(token) in _BETWEEN), len(tokens))
        words, tokens[:end] = tokens[:end], []
        return self._primary(words)

    def _primary(self, tokens: list[list[Node]]) -> bool | None:
        """Return whether `-n X` or `X = Y` holds."""
        operation = _sign(tokens[1]) if len(tokens) == 3 else ""
        if operation in ("=", "==", "!=") and self._patterns:
            left, pattern = self._text(tokens[0]), self._expansion.pattern(tokens[2][0], tokens[2][-1])
            return self._like(left, operation, pattern)
        if operation == "=~":
            whole = self._state.slice(tokens[2][0].start_byte, tokens[2][-1].end_byte)
            is_regex = tokens[2][0].type == "regex"
            return self.test(
                [self._text(tokens[0]), operation, whole.strip("\"'") if is_regex else self._text(tokens[2])]
            )
        return self.test([self._text(token) for token in tokens])

    def _text(self, token: list[Node]) -> str:
        return _sign(token) or "".join(map(self._expansion.one, token))

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

    def _like(self, left: str, operation: str, pattern: str) -> bool | None:
        """Return whether `[[ X = PATTERN ]]` holds."""
        fitting = None if unknowns(left) or unknowns(pattern) else fits(left, pattern)
        return None if fitting is None else fitting is (operation != "!=")

    def _compared(self, left: str, operation: str, right: str) -> bool | None:
        if operation in ("=", "=="):
            return left == right
        if operation == "!=":
            return left != right
        if operation == "=~":
            return _found(right, left)
        if operation in ("<", ">"):
            return left < right if operation == "<" else left > right
        if not self._patterns:  # there "010" is ten
            left, right = (re.sub(r"^([+-]?)0+(?=[0-9])", r"\1", side.strip()) for side in (left, right))
        compare = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}.get(operation, operation)
        try:
            return bool(evaluate(f"{left or 0} {compare} {right or 0}", self._state.number))
        except NotKnown:
            return None


def _flat(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield operands and signs of a test in the order of the script."""
    for node in nodes:
        if node.type in _NESTED:
            yield from _flat(node.children)
        elif node.type != "comment":
            yield node


def _tokens(nodes: list[Node], source: bytes) -> list[list[Node]]:
    """Return signs and operands: nodes with nothing between them are one."""
    found: list[list[Node]] = []
    for node in nodes:
        behind = found and not _sign([node]) and not _sign(found[-1]) and found[-1][-1].end_byte == node.start_byte
        if behind:
            found[-1].append(node)
        else:
            found.append([node])
    return found


def _sign(token: list[Node]) -> str:
    """Return a sign of a test as it is written; nothing for an operand."""
    node = token[0]
    is_sign = node.type == "test_operator" or not node.is_named or (node.type == "word" and node.text in _BRACKETS)
    return text_of(node) if len(token) == 1 and is_sign else ""


def _found(pattern: str, text: str) -> bool | None:
    """Search for a script's own pattern; None where that is none, or one that could take for ever."""
    simple = len(text) <= _LONGEST and len(pattern) <= _LONGEST and not re.search(r"\)\s*[*+?{]", pattern)
    repeats = len(re.findall(r"[*+?{]", pattern))
    if not simple or repeats > _REPEATS or len(text) ** repeats > _MOST_WAYS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        return None
