"""A script's syntax tree, as tree-sitter makes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from extractor.usecases.fromrun.bash.state import too_much
from extractor.values import limits

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


def parse(source: bytes, file: str) -> Node:
    """Return the root of a script's tree.

    Args:
        source: The script.
        file: Its path, for messages.

    Raises:
        UsageError: it is nested too deeply.
    """
    import tree_sitter
    import tree_sitter_bash

    tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language())).parse(source)
    _check_depth(tree, file)
    return tree.root_node


def text_of(node: Node) -> str:
    """Return a node as it stands in the script."""
    return (node.text or b"").decode()


def field(node: Node, name: str) -> Node:
    """Return a child by the grammar's name for it, which it must have."""
    child = node.child_by_field_name(name)
    assert child is not None, f"{node.type} without {name}"
    return child


def errors(node: Node) -> Iterator[Node]:
    """Yield what the parser did not understand."""
    if node.type == "ERROR" or node.is_missing:
        yield node
    for child in node.children:
        if child.has_error or child.is_missing:
            yield from errors(child)


def _check_depth(tree: Tree, file: str) -> None:
    cursor, depth = tree.walk(), 0
    while True:
        if cursor.goto_first_child():
            depth += 1
            if depth > limits.MAX_SCRIPT_DEPTH:
                raise too_much(file, f"it is nested more than {limits.MAX_SCRIPT_DEPTH} levels deep")
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            depth -= 1
