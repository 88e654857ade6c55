"""The state of a script while it is read: its variables and arguments, and what it would have run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extractor.usecases.fromrun.unknowns import number_of, unknown
from extractor.values import limits
from extractor.values.errors import UsageError

Value = str | list[str] | dict[str, str]


class Stop(Exception):
    """`exit`, `return`, `break` or `continue`."""


class Failure(Stop):
    """`exit` with another status than 0."""


@dataclass(frozen=True)
class Command:
    """A command that the script would run.

    Attributes:
        words: Name and arguments, expanded.
        line: Where it stands.
        environment: Exported variables, and those that stand before it.
    """

    words: tuple[str, ...]
    line: int
    environment: Mapping[str, str] = field(repr=False)


class Variables:
    """Variables, arguments and functions of a script, and the commands and notes gathered so far."""

    def __init__(
        self,
        source: bytes,
        file: str,
        given: Mapping[str, str],
        environment: Mapping[str, str],
        arguments: Sequence[str],
    ) -> None:
        self._source = source
        self._file = file
        self._given = dict(given)
        self._variables: dict[str, Value] = {**environment, **given}
        self._exported: set[str] = set(environment) | set(given)
        self._arguments = list(arguments)
        self._functions: dict[str, Any] = {}
        self._depth = 0
        self._doubts = 0
        self._statements = 0
        self._expanded = 0
        self.commands: list[Command] = []
        self.notes: list[str] = []

    def run(self, nodes: Iterable[Any]) -> bool | None:
        """Read statements one after another; the outcome of the last as far as it is known."""
        raise NotImplementedError

    def _spend(self, characters: int) -> None:
        """Count what expansions make, or what is gone through for them.

        Raises:
            UsageError: the script makes more than is read.
        """
        self._expanded += characters
        if characters > limits.MAX_EXPANDED or self._expanded > limits.MAX_EXPANDED:
            raise too_much(self._file, f"its expansions make more than {limits.MAX_EXPANDED:,} characters")

    def _words_are(self, words: list[str]) -> list[str]:
        """Return words, counted."""
        if len(words) > limits.MAX_WORDS:
            raise too_much(self._file, f"a list in it has more than {limits.MAX_WORDS:,} words")
        self._spend(8 * len(words))
        return words

    def _note(self, node: Any, text: str) -> None:
        self._spend(len(text))
        self.notes.append(f"line {node.start_point[0] + 1}: {text}")

    def _put(self, name: str, value: Value, keep: bool = False) -> None:
        self._spend(len(value))
        if len(value) > limits.MAX_WORD:
            raise too_much(self._file, f"the variable {name} grows beyond {limits.MAX_WORD:,} characters")
        if not keep and name not in self._given:
            self._variables[name] = value

    def _variable(self, name: str) -> str:
        number = number_of(name)
        if number is not None:
            if number == 0:
                return self._file
            return self._arguments[number - 1] if number <= len(self._arguments) else ""
        if name in ("@", "*"):
            return " ".join(self._arguments)
        if name == "#":
            return str(len(self._arguments))
        if name == "BASH_SOURCE":
            return self._file
        if name in ("?", "$", "!", "RANDOM", "SECONDS", "HOSTNAME"):
            return unknown(f"${name}")
        value = self._variables.get(name)
        return unknown(name) if value is None else scalar(value)

    def _slice(self, start: int, end: int) -> str:
        return self._source[start:end].decode()


def too_much(file: str, what: str) -> UsageError:
    """Return the error of a script that would take long to read."""
    return UsageError(
        f"{file}: too large to be read: {what}",
        hint="pass what the run resolved to instead: .hydra/config.yaml, or what `--cfg job --resolve` prints",
    )


def scalar(value: Value) -> str:
    if isinstance(value, list):
        return value[0] if value else ""
    return "" if isinstance(value, dict) else value
