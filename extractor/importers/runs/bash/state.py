"""The state of a script while it is read: its variables and arguments, and what it would have run."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.arithmetic import NotKnown, evaluate
from extractor.importers.runs.bash.inputs import Input
from extractor.importers.runs.bash.scopes import Scopes
from extractor.importers.runs.unknowns import number_of, unknown, unknowns
from extractor.values import limits, readers
from extractor.values.errors import UsageError

if TYPE_CHECKING:
    from tree_sitter import Node

Value = str | list[str] | dict[str, str]
# Gives what a path names in the script's checkout, seen from a directory; None: it is not there.
There = Callable[[str, str], Path | None]

# Names that stand for others, one after another.
_REFERENCES = 10
# What working out a variable's number counts for: each may name others, and so on.
_EVALUATION = 1_000


class Stop(Exception):
    """`exit`, `return`, `break` or `continue`."""


class Return(Stop):
    """`return`, with whether it says that all went well; None: that is not known."""

    def __init__(self, outcome: bool | None) -> None:
        super().__init__()
        self.outcome = outcome


class Break(Stop):
    """`break`, or `continue`, with the number of loops that it leaves, or goes on with the last of."""

    def __init__(self, levels: int, *, goes_on: bool) -> None:
        super().__init__()
        self.levels = levels
        self.goes_on = goes_on


class Failure(Stop):
    """`exit` with another status than 0."""


@dataclass(frozen=True)
class Command:
    """A command that the script would run.

    Attributes:
        words: Name and arguments, expanded.
        line: Where it stands.
        environment: Exported variables, and those that stand before it.
        elsewhere: Whether what it prints goes to a file, or to the screen past who takes its output.
    """

    words: tuple[str, ...]
    line: int
    environment: Mapping[str, str] = field(repr=False)
    elsewhere: bool = False


@dataclass(frozen=True)
class Function:
    """A function's body and whole definition, with the script that has it."""

    body: Node
    source: bytes
    file: str
    definition: Node


class State:
    """Holds what is known of a script at the place that is read.

    Attributes:
        source, file: The script that is read at this place, and its path.
        there: Finds the files of the checkout.
        given: Variables that the user has set.
        variables, exported, arguments: What it has at this place.
        functions: By name.
        scopes: Whose variables are.
        attributes: What `declare` says of variables, as letters.
        aliases, expands_aliases: What stands for what, and whether the shell puts that there: a script's does if told.
        depth: Calls of functions in each other.
        input: What `read` reads; None: not known.
        doubts: Conditions so far that could not be decided.
        commands: What it would have run so far.
        notes: What could not be known, or is not as it looks, with lines.
    """

    def __init__(
        self,
        source: bytes,
        file: str,
        given: Mapping[str, str],
        environment: Mapping[str, str],
        arguments: Sequence[str],
        there: There,
    ) -> None:
        self.source = source
        self.file = self._main = file
        # Where it lies does not change with the directory that it goes to.
        self.zero = str(Path(file).absolute())
        self.there = there
        self.given = dict(given)
        self.variables: dict[str, Value] = {**environment, **given}
        self.exported: set[str] = set(environment) | set(given)
        self.arguments = list(arguments)
        self.functions: dict[str, Function] = {}
        self.depth = 0
        self.doubts = 0
        self._statements = 0
        self._expanded = 0
        self.scopes = Scopes(self)
        self.attributes: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.expands_aliases = False
        self.input: Input | None = None
        self.commands: list[Command] = []
        self.notes: list[str] = []
        self._written: dict[str, str] = {}

    @contextlib.contextmanager
    def inside(self, source: bytes, file: str, line: int | None = None) -> Iterator[None]:
        """Read another script within it.

        Args:
            source, file: The script and its path.
            line: Where what it runs is said to stand; None: where it does.
        """
        kept, count = (self.source, self.file), len(self.commands)
        self.source, self.file = source, file
        self.depth += 1
        try:
            yield
        finally:
            self.source, self.file = kept
            self.depth -= 1
            if line is not None:
                self.commands[count:] = [replace(item, line=line) for item in self.commands[count:]]

    def found(self, path: str) -> Path | None:
        """Return the file or directory of the checkout that a path names; None: it is not there, or not known."""
        return None if unknowns(path) or not path else self.there(path, self.variable("PWD"))

    def content(self, path: str) -> str | None:
        """Return what is in a file that the script has written, or that the checkout has; None: that is not known."""
        text = self.written(path)
        if text is not None:
            return text
        file = self.found(path)
        if file is None or not file.is_file() or file.stat().st_size > limits.MAX_INNER_TEXT:
            return None
        try:
            text = readers.read_text(file)
        except OSError:
            return None
        self.spend(len(text))
        return text

    def write(self, path: str, text: str, *, more: bool) -> None:
        """Note a text that the script writes into a file.

        Args:
            path: As the script names it; a part of it may be unknown.
            text: What it writes.
            more: Whether that stands behind what it has written before.
        """
        before = (self.written(path) or "") if more else ""
        self.spend(len(before) + len(text))
        self._written[self._absolute(path)] = before + text

    def written(self, path: str) -> str | None:
        """Return what the script has written into a file; None: nothing."""
        return self._written.get(self._absolute(path)) if self._written else None

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.variable("PWD"), path))

    def step(self) -> None:
        """Count a statement.

        Raises:
            UsageError: the script runs more than is read.
        """
        self._statements += 1
        if self._statements > limits.MAX_STATEMENTS:
            raise too_much(self.file, f"it runs more than {limits.MAX_STATEMENTS:,} statements")

    def spend(self, characters: int) -> None:
        """Count what expansions make, or what is gone through for them.

        Raises:
            UsageError: the script makes more than is read.
        """
        self._expanded += characters
        if characters > limits.MAX_EXPANDED or self._expanded > limits.MAX_EXPANDED:
            raise too_much(self.file, f"its expansions make more than {limits.MAX_EXPANDED:,} characters")

    def counted(self, words: list[str]) -> list[str]:
        """Return words, counted."""
        if len(words) > limits.MAX_WORDS:
            raise too_much(self.file, f"a list in it has more than {limits.MAX_WORDS:,} words")
        self.spend(8 * len(words))
        return words

    def environment(self) -> dict[str, str]:
        """Return the exported variables."""
        found = {key: value for key, value in self.variables.items() if key in self.exported and isinstance(value, str)}
        self.spend(20 * len(self.variables) + 20 * len(found))
        return found

    def note(self, node: Node, text: str) -> None:
        """Note something about a place of the script."""
        self.spend(len(text))
        line = f"line {node.start_point[0] + 1}"
        self.notes.append(f"{line if self.file == self._main else f'{Path(self.file).name}, {line}'}: {text}")

    def put(self, name: str, value: Value, keep: bool = False) -> None:
        """Set a variable, where the user has not set it. What a command prints is asked for by the variable's name."""
        self.spend(len(value))
        if len(value) > limits.MAX_WORD:
            raise too_much(self.file, f"the variable {name} grows beyond {limits.MAX_WORD:,} characters")
        if isinstance(value, str) and any(value == unknown(item) and item.startswith("$(") for item in unknowns(value)):
            value = unknown(name)
        if not keep and name not in self.given:
            name = self.name(name)
            self.variables[name] = self._with_attributes(name, value) if name in self.attributes else value

    def _with_attributes(self, name: str, value: Value) -> Value:
        """Return what an assignment makes of a text where `declare` said how: -i, -l, -u."""
        marks = self.attributes[name]
        if not isinstance(value, str) or unknowns(value):
            return value
        if "i" in marks:
            try:
                return str(evaluate(value, self.number))
            except NotKnown:
                return unknown(name)
        return value.lower() if "l" in marks else value.upper() if "u" in marks else value

    def name(self, name: str) -> str:
        """Return the name of the variable that a name stands for: `declare -n` makes one stand for another."""
        for _ in range(_REFERENCES):
            target = self.variables.get(name)
            if "n" not in self.attributes.get(name, "") or not isinstance(target, str) or not target:
                break
            name = target
        return name

    def value(self, name: str) -> Value | None:
        """Return what a variable holds; None where that is not known."""
        return self.variables.get(self.name(name) if self.attributes else name)

    def variable(self, name: str) -> str:
        """Return the text of a variable or an argument; a stand-in where it is not known."""
        number = number_of(name)
        if number is not None:
            if number == 0:
                return self.zero
            return self.arguments[number - 1] if number <= len(self.arguments) else ""
        if name in ("@", "*"):
            return " ".join(self.arguments)
        if name == "#":
            return str(len(self.arguments))
        if name == "BASH_SOURCE":
            return str(Path(self.file).absolute())
        if name in ("?", "$", "!", "RANDOM", "SECONDS", "HOSTNAME"):
            return unknown(f"${name}")
        value = self.value(name)
        return unknown(name) if value is None else scalar(value)

    def split(self, text: str) -> list[str]:
        """Return the words of a text that is expanded outside of quotes. One that is not known stays whole."""
        return split(text, self.separators())

    def separators(self) -> str:
        """Return what ends words: IFS."""
        held = self.value("IFS")
        return held if isinstance(held, str) and not unknowns(held) else " \t\n"

    def number(self, name: str) -> str | None:
        """Return a variable's value in arithmetic; None where it is unknown."""
        self.spend(_EVALUATION)
        held = self.value(name)
        value = None if held is None else scalar(held) or "0"
        if value is None or unknowns(value):
            return None
        try:
            return value if re.fullmatch(r"[+-]?(0|[1-9][0-9]*)", value) else str(evaluate(value, self.number))
        except (NotKnown, RecursionError):
            return None

    def slice(self, start: int, end: int) -> str:
        """Return a part of the script, by its bytes."""
        return self.source[start:end].decode()


def split(text: str, separators: str) -> list[str]:
    """Return the words of a text.

    Args:
        text: What is split.
        separators: Each ends a word; of blanks among them, several end one.
    """
    found: list[str] = []
    blanks = "".join(letter for letter in separators if letter in " \t\n")
    rest = text.strip(blanks) if blanks else text
    pattern = _separator(separators)
    at = start = 0
    while (piece := pattern.search(rest, at)) is not None:
        at = piece.end()
        if piece["between"]:
            found.append(rest[start : piece.start()])
            start = at
    return [*found, rest[start:]] if rest[start:] else found


def split_once(text: str, separators: str) -> tuple[str, str]:
    """Return the first word of a text, and what stands behind its end."""
    for piece in _separator(separators).finditer(text):
        if piece["between"]:
            return text[: piece.start()], text[piece.end() :]
    return text, ""


@lru_cache(64)
def _separator(separators: str) -> re.Pattern[str]:
    """Return what finds the ends of words, and what is unknown: that stays whole, whatever its name is."""
    blanks = "".join(letter for letter in separators if letter in " \t\n")
    others = re.escape("".join(letter for letter in separators if letter not in " \t\n"))
    blank = f"[{blanks}]" if blanks else "(?!)"
    between = rf"{blank}*[{others}]{blank}*|{blank}+" if others else f"{blank}+"
    return re.compile(rf"(?P<unknown>\ue000+[^\ue000\ue001]*\ue001+)|(?P<between>{between})")


def too_much(file: str, what: str) -> UsageError:
    """Return the error of a script that would take long to read."""
    return UsageError(
        f"{file}: too large to be read: {what}",
        hint="pass what the run resolved to instead: .hydra/config.yaml, or what `--cfg job --resolve` prints",
    )


def scalar(value: Value) -> str:
    """Return what a variable's name alone stands for: of an array, its first item."""
    if isinstance(value, list):
        return value[0] if value else ""
    return value.get("0", "") if isinstance(value, dict) else value
