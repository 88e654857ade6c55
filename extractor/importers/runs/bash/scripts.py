"""Other scripts of the same checkout that a script reads or starts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.branches import Runner
from extractor.importers.runs.bash.state import State, Stop, too_much
from extractor.importers.runs.bash.syntax import mended, parse
from extractor.importers.runs.unknowns import readable, unknowns
from extractor.values import limits, readers

if TYPE_CHECKING:
    from tree_sitter import Node

# Functions and scripts in each other.
MAX_DEPTH = 20
_SHELL = re.compile(r"(?:.*/)?(?:ba|z)?sh")
_SCRIPT = re.compile(r".*\.(?:sh|bash)")
_GIVEN = re.compile(r"-[a-z]*c")
_PRINTS = ("echo", "printf", "cat", "ls", "chmod", "cp", "mv", "rm", "grep", "sed")
_STARTERS = ("exec", "nohup", "time", "timeout", "env", "command", "sudo", "stdbuf", "setsid", "srun", "sbatch", "qsub")


class Scripts:
    """Reads them at the place where they would run.

    Args:
        state: Of the script.
        interpreter: Reads the statements inside.
    """

    def __init__(self, state: State, interpreter: Runner) -> None:
        self._state = state
        self._interpreter = interpreter

    def source(self, node: Node, words: Sequence[str]) -> bool | None:
        """`source FILE ARGUMENT...`: what it sets counts from here on. One outside the checkout is not read."""
        text = self._text(words[1]) if len(words) > 1 else None
        if text is None:
            self._state.note(
                node, f"{readable(words[-1])} is not read: set what it sets with --set VAR=VALUE, or --set @FILE"
            )
            return None
        kept = self._state.arguments
        if len(words) > 2:
            self._state.arguments = list(words[2:])
        try:
            return self._run(node, *text)
        finally:
            self._state.arguments = kept

    def start(self, node: Node, words: Sequence[str], before: Mapping[str, str]) -> bool:
        """`bash FILE ARGUMENT...`, `bash -c TEXT`, also behind another command, are scripts; False: it is neither."""
        given = _given(words)
        text = "" if given is None else words[given]
        if given is not None and unknowns(text) != (text[1:-1],) and len(text) <= limits.MAX_INNER_TEXT:
            self.read(node, text, {**self._state.environment(), **before}, words[given + 2 :])
            return True
        place = _place(words, self._state)
        found = None if place is None else self._text(words[place])
        if place is None or found is None:
            return False
        self._apart(node, found, {**self._state.environment(), **before}, words[place + 1 :])
        return True

    def read(self, node: Node, text: str, environment: Mapping[str, str], arguments: Sequence[str] = ()) -> None:
        """`bash <<EOF`: read a text as a script of its own, by a shell that the script starts."""
        if self._state.depth < MAX_DEPTH:
            self._state.spend(len(text))
            file = self._state.file
            self._apart(node, (Path(file), mended(text.encode(), file)), environment, arguments)

    def _apart(
        self, node: Node, text: tuple[Path, bytes], environment: Mapping[str, str], arguments: Sequence[str]
    ) -> None:
        """Read a script that sees no more of this one than its environment, and changes nothing of it."""
        state = self._state
        kept = state.variables, state.exported, state.functions, state.arguments, state.zero
        said = state.attributes, state.aliases, state.expands_aliases
        state.variables = {**environment, **state.given, "PWD": state.variable("PWD")}
        state.exported = set(state.variables)
        state.functions, state.attributes, state.aliases, state.expands_aliases = {}, {}, {}, False
        state.arguments, state.zero = list(arguments), str(text[0])
        try:
            with state.scopes.outside():
                self._run(node, *text)
        finally:
            state.variables, state.exported, state.functions, state.arguments, state.zero = kept
            state.attributes, state.aliases, state.expands_aliases = said

    def _text(self, path: str) -> tuple[Path, bytes] | None:
        """Return a script of the checkout, or one that was written here, as the parser takes it; None: it is none."""
        if self._state.depth >= MAX_DEPTH:
            return None
        written = self._state.written(path)
        if written is not None:
            self._state.spend(len(written))
            return Path(path), mended(written.encode(), path)
        file = self._state.found(path)
        if file is None or not file.is_file():
            return None
        if file.stat().st_size > limits.MAX_SCRIPT:
            raise too_much(str(file), f"it is larger than {readers.size(limits.MAX_SCRIPT)}")
        try:
            text = readers.read_commented(file)
        except OSError:
            return None
        self._state.spend(len(text))
        return file, mended(text.encode(), str(file))

    def _run(self, node: Node, file: Path, source: bytes) -> bool | None:
        try:
            with self._state.inside(source, str(file), node.start_point[0] + 1):
                return self._interpreter.run(parse(source, str(file)).children)
        except Stop:  # `return`, or its `exit`
            return None


def is_shell(word: str) -> bool:
    """Tell whether a word names a shell."""
    return _SHELL.fullmatch(word) is not None


def _given(words: Sequence[str]) -> int | None:
    """Return the index of the text that a command has a shell read, `bash -c TEXT`; None where it has none read one."""
    pairs = itertools.pairwise(words[:-1]) if words[0] not in _PRINTS else ()
    found = (index for index, (word, flags) in enumerate(pairs) if is_shell(word) and _GIVEN.fullmatch(flags))
    return next((index + 2 for index in found), None)


def _place(words: Sequence[str], state: State) -> int | None:
    """Return the index of the script among the words of a command; None where it starts none."""
    if words[0] in _PRINTS:
        return None
    starts = words[0] in _STARTERS
    for index, word in enumerate(words):
        if (starts or not index) and (_SCRIPT.fullmatch(word) or state.written(word) is not None):
            return index
        if is_shell(word):
            options = 0
            while words[index + 1 + options :][:1] and words[index + 1 + options].startswith("-"):
                options += 1
            place = index + 1 + options
            return place if place < len(words) else None
    return None
