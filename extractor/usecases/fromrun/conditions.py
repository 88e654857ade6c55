"""`[ ... ]`, `[[ ... ]]` and `((...))`: what holds, what does not, and what cannot be known."""

from __future__ import annotations

import re
import warnings
from fnmatch import fnmatchcase
from typing import Any

from extractor.usecases.fromrun.arithmetic import NotKnown, evaluate
from extractor.usecases.fromrun.expansion import Expansions
from extractor.usecases.fromrun.unknowns import unknowns

# A pattern with more repetitions than this, or a longer text, is not searched for: time grows with their power.
_REPEATS = 3
_LONGEST = 200


class Conditions(Expansions):
    """Tests; None stands for what is not known."""

    def _on_test_command(self, node: Any) -> bool | None:
        if node.children and node.children[0].type == "((":
            return self._arithmetic_test(node)
        return self._condition(node.named_children[0]) if node.named_children else False

    def _arithmetic_test(self, node: Any) -> bool | None:
        inner = self._slice(node.children[0].end_byte, node.children[-1].start_byte)
        try:
            return evaluate(inner, self._number) != 0
        except NotKnown:
            return None

    def _condition(self, node: Any) -> bool | None:
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
                words.append(child.text.decode())
            elif child.type in ("extglob_pattern", "regex"):
                words.append(self._source[child.start_byte : child.end_byte].decode().strip("\"'"))
            else:
                words.append(self._one(child))
        if node.type not in ("binary_expression", "unary_expression"):
            words = [self._one(node)]
        return self._test(words, node)

    def _test(self, words: list[str], node: Any) -> bool | None:
        if words and words[0] == "!":
            inner = self._test(words[1:], node)
            return None if inner is None else not inner
        if len(words) == 2 and words[0] in ("-z", "-n") and unknowns(words[1]) == (words[1][1:-1],):
            # As `${X:-}` does: what nothing has set is empty, and `--set` sets it.
            words = [words[0], words[1] if words[1][1:-1] in self._variables or "$" in words[1] else ""]
        if any(unknowns(word) for word in words):
            return None
        if len(words) == 1:
            return bool(words[0])
        if len(words) == 2:
            if words[0] == "-v":
                return words[1] in self._variables
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
            return bool(evaluate(f"{left or 0} {compare} {right or 0}", self._number))
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
