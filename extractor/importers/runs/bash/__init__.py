"""Interpret bash without running it: find the commands a script starts.

`syntax` parses it (`quotes` says where quotes and expansions end), `words` expands words and decides tests,
`statements` goes through it, with `state`.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extractor.importers.runs.bash.quotes import NotBash
from extractor.importers.runs.bash.state import Command, ShellState, Stop, refuse_length, refuse_line
from extractor.importers.runs.bash.statements import Interpreter
from extractor.importers.runs.bash.syntax import parse
from extractor.importers.runs.placeholders import number_of
from extractor.values import limits, readers

__all__ = ["Command", "ScriptReading", "read_script", "refuse_length"]


@dataclass(frozen=True)
class ScriptReading:
    """The commands of a script, and notes on it."""

    commands: tuple[Command, ...]
    notes: tuple[str, ...]


def read_script(
    text: str,
    file: str,
    given: Mapping[str, str],
    environment: Mapping[str, str],
    arguments: Sequence[str] = (),
) -> ScriptReading:
    """Work out what a script would run.

    Args:
        text: The script.
        file: Its path, for messages and for `$0`.
        given: Variables that the user has set; they win over what the script assigns by a default or by a command.
            Those whose names are numbers are its arguments.
        environment: Variables that are there from the start.
        arguments: `$1`, `$2`...

    Raises:
        UsageError: a line is no bash, or is not read.
    """
    if len(text.encode()) > limits.MAX_SCRIPT:
        raise refuse_length(file, f"it is larger than {readers.write_size(limits.MAX_SCRIPT)}")
    numbers = [number for name in given if (number := number_of(name)) is not None]
    last = min(max(numbers, default=0), limits.MAX_ROUNDS)  # arguments that are not given are empty
    arguments = arguments or [given.get(str(number), "") for number in range(1, last + 1)]
    state = ShellState(file, given, environment, arguments)
    try:
        statements = parse(text)
        with contextlib.suppress(Stop):  # `exit`: what follows is not run
            Interpreter(state).run(statements)
    except NotBash as error:
        raise refuse_line(file, text.count("\n", 0, error.at) + 1, error.why) from None
    except RecursionError:
        raise refuse_length(file, "it is nested too deep") from None
    return ScriptReading(tuple(state.commands), tuple(dict.fromkeys(state.notes)))
