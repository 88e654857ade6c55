"""Hold a script's variables and commands at the current line."""

import contextlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from extractor.importers.runs.placeholders import find_unknowns, make_unknown, number_of
from extractor.values import limits
from extractor.values.errors import UsageError

Value = str | list[str]


class Stop(Exception):
    """Ends a script: `exit`."""


class Failure(Stop):
    """Ends a script with another status than 0."""


@dataclass(frozen=True)
class Command:
    """A command that the script would run."""

    words: tuple[str, ...]
    line: int
    environment: Mapping[str, str] = field(repr=False)


class ShellState:
    """The state of a script at the current line.

    Attributes:
        file: The script; zero: its whole path.
        at: The line of the statement that is read.
        given: Variables that the user has set: nothing changes them.
        variables, exported, arguments, functions: What it has here; of a function its name.
        depth: Outputs of commands in each other.
        commands: What it would have run so far.
        notes: What a user should know, with lines.
    """

    def __init__(
        self,
        file: str,
        given: Mapping[str, str],
        environment: Mapping[str, str],
        arguments: Sequence[str],
    ) -> None:
        self.file = file
        self.zero = str(Path(file).absolute())
        self.at = 0
        self.given = dict(given)
        self.variables: dict[str, Value] = {**environment, **given}
        self.exported = {*environment, *given}
        self.arguments = list(arguments)
        self.functions: set[str] = set()
        self.depth = 0
        self.commands: list[Command] = []
        self.notes: list[str] = []
        self._characters = 0

    def note(self, line: int, text: str) -> None:
        """Note something about a line."""
        self.spend(len(text))
        self.notes.append(f"line {line}: {text}")

    def refuse(self, line: int, why: str) -> UsageError:
        """Return the error for an unsupported line."""
        return refuse_line(self.file, line, why)

    def spend(self, characters: int) -> None:
        """Count characters that expansions make.

        Raises:
            UsageError: the script makes more than is read.
        """
        self._characters += characters
        if self._characters > limits.MAX_EXPANDED:
            raise refuse_length(self.file, f"it makes more than {limits.MAX_EXPANDED:,} characters, or does too much")

    def counted(self, words: list[str]) -> list[str]:
        """Count words towards the limits; return them."""
        self.spend(8 * len(words) + sum(map(len, words)))
        return words

    def value(self, name: str) -> Value | None:
        """Return a variable's value; None if unset or unknown."""
        held = self.variables.get(name)
        return None if held == [] else held

    def text(self, name: str) -> str:
        """Return a variable's or argument's text, or a placeholder."""
        number = number_of(name)
        if number is not None:
            return self.zero if not number else "".join(self.arguments[number - 1 : number])
        if name in ("@", "*"):
            return " ".join(self.arguments)
        if name == "#":
            return str(len(self.arguments))
        if name == "BASH_SOURCE":
            return self.zero
        if name in ("?", "$", "!", "-", "RANDOM", "SECONDS", "HOSTNAME"):
            return make_unknown(f"${name}")
        return take_scalar(self.variables.get(name, make_unknown(name)))

    def put(self, name: str, value: Value) -> None:
        """Set a variable unless the user gave its value."""
        self.spend(len(value))
        is_output = isinstance(value, str) and find_unknowns(value) == (value[1:-1],) and value[1:2] == "$"
        if name not in self.given:
            self.variables[name] = make_unknown(name) if is_output else value

    def environment(self) -> dict[str, str]:
        """Return the exported variables."""
        self.spend(20 * len(self.variables))
        return {key: value for key, value in self.variables.items() if key in self.exported and isinstance(value, str)}

    def absolute(self, path: str) -> str:
        """Return a path as absolute."""
        return posixpath.normpath(posixpath.join(self.text("PWD"), path))

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Run a subshell and discard its changes."""
        self.spend(20 * len(self.variables))
        kept = self.variables, self.exported, self.functions, self.arguments
        self.variables, self.exported = dict(self.variables), set(self.exported)
        self.functions, self.arguments = set(self.functions), list(self.arguments)
        try:
            yield
        finally:
            self.variables, self.exported, self.functions, self.arguments = kept


def take_scalar(value: Value) -> str:
    """Return a variable's plain value: an array's first item."""
    return value if isinstance(value, str) else "".join(value[:1])


def refuse_length(file: str, what: str) -> UsageError:
    """Return the error for a script too large to read."""
    return UsageError(
        f"{file}: too large to be read: {what}",
        hint="pass what the run resolved to instead: .hydra/config.yaml, or what `--cfg job --resolve` prints",
    )


def refuse_line(file: str, line: int, why: str) -> UsageError:
    """Return the error of a line that is not read."""
    return UsageError(
        f"{file}:{line}: {why}",
        hint="pass what the run resolves to instead: append `--cfg job --resolve > run.yaml` to its python command",
    )
