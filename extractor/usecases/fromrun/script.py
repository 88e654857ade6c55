"""Reading a launch script: its assignments and expansions are worked out, and nothing of it is ever run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extractor.usecases.fromrun.branches import Branches
from extractor.usecases.fromrun.variables import Command, Stop, too_much
from extractor.values import limits, readers
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
    source = text.encode()
    if len(source) > limits.MAX_SCRIPT:
        raise too_much(file, f"it is larger than {readers.size(limits.MAX_SCRIPT)}")
    tree = _parser().parse(source)
    _check_depth(tree, file)
    reader = Branches(source, file, given, environment, arguments)
    if tree.root_node.has_error:
        bad = next(_errors(tree.root_node))
        line = bad.start_point[0] + 1
        if not any(True for _ in tree.root_node.named_children):
            raise UsageError(f"{file}: no bash script", hint="pass a script, a list of overrides or a YAML file")
        reader.notes.append(f"line {line}: not understood as bash")
    try:
        with contextlib.suppress(Stop):  # `exit`: what follows is not run
            reader.run(tree.root_node.children)
    except RecursionError:  # functions that call each other, each with blocks in blocks
        raise _too_deep(file) from None
    return Reading(tuple(reader.commands), tuple(dict.fromkeys(reader.notes)))


def _check_depth(tree: Any, file: str) -> None:
    cursor, depth = tree.walk(), 0
    while True:
        if cursor.goto_first_child():
            depth += 1
            if depth > limits.MAX_SCRIPT_DEPTH:
                raise _too_deep(file)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            depth -= 1


def _too_deep(file: str) -> UsageError:
    return too_much(file, f"it is nested more than {limits.MAX_SCRIPT_DEPTH} levels deep")


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
