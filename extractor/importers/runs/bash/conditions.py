"""Evaluate `[ ... ]` and `[[ ... ]]`; None if unknown."""

from collections.abc import Callable, Sequence
from pathlib import Path

from extractor.importers.runs.bash import arithmetic
from extractor.importers.runs.bash.state import ShellState
from extractor.importers.runs.bash.words import WordExpander
from extractor.importers.runs.placeholders import find_unknowns

_OF_FILES = {"-e": Path.exists, "-f": Path.is_file, "-r": Path.exists, "-s": Path.is_file, "-d": Path.is_dir}
_NUMBERS = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}


def decide(tokens: Sequence[str], state: ShellState, expand: WordExpander, *, expanded: bool) -> bool | None:
    """Evaluate the words of `test`, expanded, or `[[ ... ]]`; None if unknown."""
    test = _Test(list(tokens), state, expand, expanded=expanded)
    return None if "(" in tokens else test.evaluate_or() if tokens else False


class _Test:
    def __init__(self, tokens: list[str], state: ShellState, expand: WordExpander, *, expanded: bool) -> None:
        self._tokens = tokens
        self._state = state
        self._expand = expand
        self._expanded = expanded
        self._and, self._or = ("-a", "-o") if expanded else ("&&", "||")
        state.spend(len(tokens) ** 2)

    def evaluate_or(self) -> bool | None:
        return self._join(self._or, lambda: self._join(self._and, self._evaluate_one, False), True)

    def _join(self, sign: str, evaluate: Callable[[], bool | None], decides: bool) -> bool | None:
        """Evaluate what a sign joins; one outcome decides."""
        found = [evaluate()]
        while self._tokens[:1] == [sign]:
            self._tokens.pop(0)
            found.append(evaluate())
        return decides if decides in found else None if None in found else not decides

    def _evaluate_one(self) -> bool | None:
        tokens = self._tokens
        if tokens[:1] == ["!"] and len(tokens) > 1:
            tokens.pop(0)
            inner = self._evaluate_one()
            return None if inner is None else not inner
        ends = (self._and, self._or)
        end = next((place for place, token in enumerate(tokens) if place and token in ends), len(tokens))
        words, tokens[:end] = tokens[:end], []
        return self._evaluate_primary(words)

    def _evaluate_primary(self, words: list[str]) -> bool | None:
        if len(words) == 1:
            text = self._read_text(words[0])
            return None if find_unknowns(text) else bool(text)
        if len(words) == 2:
            return self._evaluate_unary(words[0], self._read_text(words[1]))
        return self._evaluate_binary(self._read_text(words[0]), words[1], words[2]) if len(words) == 3 else None

    def _read_text(self, word: str) -> str:
        return word if self._expanded else self._expand.text(word)

    def _evaluate_unary(self, sign: str, text: str) -> bool | None:
        if sign in ("-z", "-n"):
            name = text[1:-1]
            if find_unknowns(text) == (name,) and name not in self._state.variables and "$" not in name:
                text = ""  # as in `${X:-}`: what nothing has set is empty, and --set sets it
            return None if find_unknowns(text) else bool(text) is (sign == "-n")
        found = self._state.found(text) if sign in _OF_FILES else None
        return None if found is None else _OF_FILES[sign](found)  # it may be on the machine of the run

    def _evaluate_binary(self, left: str, sign: str, word: str) -> bool | None:
        right = self._read_text(word)
        if find_unknowns(left) or find_unknowns(right):
            return None
        if sign in ("=", "==", "!="):
            same = left == right if self._expanded else self._expand.matches(left, word)
            return None if same is None else same is (sign != "!=")
        if sign not in _NUMBERS:
            return None
        try:
            return bool(arithmetic.evaluate(f"({left or 0}) {_NUMBERS[sign]} ({right or 0})", self._expand.number))
        except arithmetic.NotKnown:
            return None
