"""Reading a launch script: its assignments and expansions are worked out, and nothing of it is ever run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extractor.usecases.fromrun.branches import Branches
from extractor.usecases.fromrun.variables import Command, Stop
from extractor.values.errors import UsageError


@dataclass(frozen=True)
class Reading:
    """What was made of a script.

    Attributes:
        commands: Everything that it would run, in order.
        notes: What could not be known, or is not as it looks, with lines.
    """

    commands: tuple[Command, ...]
    notes: tuple[str, ...]


def read_script(
    text: str, file: str, given: Mapping[str, str], environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> Reading:
    """Work out what a script would run.

    Args:
        text: The script.
        file: Its path, for messages and for `$0`.
        given: Variables that the user has set; they win over what the script assigns by a default or by a command.
        environment: Variables that are there from the start.
        arguments: `$1`, `$2`...

    Raises:
        UsageError: the text is no bash.
    """
    tree = _parser().parse(text.encode())
    reader = Branches(text.encode(), file, given, environment, arguments)
    if tree.root_node.has_error:
        bad = next(_errors(tree.root_node))
        line = bad.start_point[0] + 1
        if not any(True for _ in tree.root_node.named_children):
            raise UsageError(f"{file}: no bash script", hint="pass a script, a list of overrides or a YAML file")
        reader.notes.append(f"line {line}: not understood as bash")
    with contextlib.suppress(Stop):  # `exit`: what follows is not run
        reader.run(tree.root_node.children)
    return Reading(tuple(reader.commands), tuple(dict.fromkeys(reader.notes)))


def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _errors(node: Any) -> Iterator[Any]:
    if node.type == "ERROR" or node.is_missing:
        yield node
    for child in node.children:
        if child.has_error or child.is_missing:
            yield from _errors(child)
