"""Reading a launch script: its assignments and expansions are worked out, and nothing of it is ever run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.branches import Branches
from extractor.importers.runs.bash.conditions import Conditions
from extractor.importers.runs.bash.expansion import Expansion
from extractor.importers.runs.bash.state import Command, State, Stop, There, too_much
from extractor.importers.runs.bash.statements import Statements
from extractor.importers.runs.bash.syntax import errors, is_of_a_quoted_default, mended, parse
from extractor.importers.runs.unknowns import number_of
from extractor.values import limits, readers
from extractor.values.errors import UsageError

if TYPE_CHECKING:
    from tree_sitter import Node


_IN_BACKGROUND = re.compile(rb"[ \t]*&(?![&>])")


@dataclass(frozen=True)
class Reading:
    """Holds what was made of a script.

    Attributes:
        commands: Everything that it would run, in order.
        notes: What could not be known, or is not as it looks, with lines.
        variables: Those that it has set, as they are in the end, but arrays.
        lost: The note on the first line that is no bash; "": all is.
    """

    commands: tuple[Command, ...]
    notes: tuple[str, ...]
    variables: Mapping[str, str]
    lost: str = ""


def read_script(
    text: str,
    file: str,
    given: Mapping[str, str],
    environment: Mapping[str, str],
    arguments: Sequence[str] = (),
    there: There = lambda _path, _folder: None,
) -> Reading:
    """Work out what a script would run.

    Args:
        text: The script.
        file: Its path, for messages and for `$0`.
        given: Variables that the user has set; they win over what the script assigns by a default or by a command.
            Those whose names are numbers are its arguments.
        environment: Variables that are there from the start.
        arguments: `$1`, `$2`...
        there: Finds the files of the checkout: other scripts that it reads or starts, and those that it tests for.

    Raises:
        UsageError: the text is no bash.
    """
    source = text.encode()
    if len(source) > limits.MAX_SCRIPT:
        raise too_much(file, f"it is larger than {readers.size(limits.MAX_SCRIPT)}")
    source = mended(source, file)
    root = parse(source, file)
    state = State(source, file, given, environment, arguments or _arguments(given), there)
    if root.has_error and not root.named_children:
        raise UsageError(f"{file}: no bash script", hint="pass a script, a list of overrides or a YAML file")
    error = next((error for error in errors(root) if not is_of_a_quoted_default(error)), None)
    lost = "" if error is None else f"line {error.start_point[0] + 1}: not understood as bash"
    state.notes += [lost] if lost else []
    try:
        with contextlib.suppress(Stop):  # `exit`: what follows is not run
            Interpreter(state).run(root.children)
    except RecursionError:  # functions that call each other, each with blocks in blocks
        raise too_much(file, f"it is nested more than {limits.MAX_SCRIPT_DEPTH} levels deep") from None
    texts = {name: value for name, value in state.variables.items() if isinstance(value, str)}
    return Reading(tuple(state.commands), tuple(dict.fromkeys(state.notes)), texts, lost)


def _arguments(given: Mapping[str, str]) -> list[str]:
    """Return the arguments of a script that are given as variables: `1` is `$1`; those between them are empty."""
    last = max((number for name in given if (number := number_of(name)) is not None), default=0)
    return [given.get(str(number), "") for number in range(1, min(last, limits.MAX_ROUNDS) + 1)]


class Interpreter:
    """Statements by the parser's names, each read by the part that knows it."""

    def __init__(self, state: State) -> None:
        self._state = state
        expansion = Expansion(state, self.run)
        conditions = Conditions(state, expansion)
        self._handlers: dict[str, Callable[[Node], bool | None]] = {
            **Statements(state, expansion, conditions, self).handlers,
            **Branches(state, expansion, conditions, self).handlers,
            "test_command": conditions.brackets,
        }

    def run(self, nodes: Iterable[Node]) -> bool | None:
        """Read statements one after another; the outcome of the last as far as it is known."""
        outcome: bool | None = True
        for node in nodes:
            if _IN_BACKGROUND.match(self._state.source, node.end_byte):
                self.apart([node], job=True)
                outcome = True
            else:
                outcome = self.statement(node)
        return outcome

    def apart(self, nodes: Iterable[Node], *, job: bool = False) -> bool | None:
        """Read what a subshell runs: nothing of it counts behind it but what it starts."""
        with self._state.scopes.apart():
            try:
                if not job:
                    return self.run(nodes)
                for node in nodes:
                    self.statement(node)
            except Stop:
                return None
        return True

    def statement(self, node: Node) -> bool | None:
        """Read a statement; its outcome as far as it is known."""
        self._state.step()
        handler = self._handlers.get(node.type)
        if handler is not None:
            return handler(node)
        if node.is_named and node.type not in ("comment", "heredoc_body", "word", "ERROR"):
            self._state.note(node, f"{node.type.replace('_', ' ')} is not read")
        if node.type == "ERROR":
            self.run(node.named_children)
        return None
