"""A script's syntax tree, as tree-sitter makes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.mending import rewritten
from extractor.importers.runs.bash.state import too_much
from extractor.values import limits

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


_DOLLAR = re.compile(rb"\$([A-Za-z_]\w*|[0-9])")
_MENDED = 3
_DEFAULTS = {f"{colon}{kind}" for colon in ("", ":") for kind in "-=+?"}
_BLANKS = re.compile(r"(?:\s|\\\n)+")
_EXPANSIONS = ("simple_expansion", "expansion", "arithmetic_expansion", "command_substitution")


def mended(source: bytes, file: str) -> bytes:
    """Return a script that the parser reads as bash does: every variable of it, and commands that end with their line.

    Of `$A/b-$C/d` it loses the second, not of `${C}`. In `a | b | c`, where a later line has `2>&1 |`, it takes the
    lines between for arguments of `c`, and not behind a semicolon. Comments in backticks are left out.

    Args:
        source: The script.
        file: Its path, for messages.

    Raises:
        UsageError: it is nested too deeply.
    """
    source = rewritten(source)
    for _ in range(_MENDED):
        tree = parse(source, file)
        lost = [node.start_byte for node in _dollars(tree) if _DOLLAR.match(source, node.start_byte)]
        for start in reversed(lost):
            source = source[:start] + _DOLLAR.sub(rb"${\1}", source[start:], count=1)
        ends = [] if lost else sorted(_overrun(tree, source))
        for end in reversed(ends):
            source = source[:end] + b";" + source[end:]
        if not (lost or ends):
            break
    return source


def _overrun(node: Node, source: bytes) -> Iterator[int]:
    """Yield where a command ends with its line, and the parser takes the next line for its arguments."""
    for child, following in pairwise(node.children):
        gap = source[child.end_byte : following.start_byte]
        if node.type == "command" and b"\n" in gap.replace(b"\\\n", b""):
            yield child.end_byte
    for child in node.children:
        yield from _overrun(child, source)


def _dollars(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type == "$" and node.type != "simple_expansion":
            yield child
        if child.type == "expansion" and child.children[-1].is_missing and child.next_sibling is not None:
            yield child.next_sibling  # `${A:$B}`
        yield from _dollars(child)


def in_a_quoted_default(node: Node) -> bool:
    """Tell whether something stands in a default between double quotes, where single ones quote nothing."""
    above, in_default = node.parent, False
    while above is not None and above.type != "command_substitution":
        in_default = in_default or (
            above.type == "expansion" and any(item.type in _DEFAULTS for item in above.children)
        )
        if above.type == "string":
            return in_default
        above = above.parent
    return False


def is_of_a_quoted_default(error: Node) -> bool:
    """Tell whether what the parser did not understand is a character of `"${A:-[...]}"`, which means itself there."""
    return error.parent is not None and error.parent.type == "expansion" and in_a_quoted_default(error)


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
    """Return a node as it stands in the script, without the blanks before it."""
    return _text(node).removeprefix(blanks_before(node))


def blanks_before(node: Node) -> str:
    """Return the blanks that the parser takes for the start of an expansion: in "$A $B" the one behind the first."""
    found = _BLANKS.match(_text(node)) if node.type in _EXPANSIONS else None
    return "" if found is None else found[0]


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def grouped(nodes: Sequence[Node], source: bytes) -> list[list[Node]]:
    """Return nodes in groups that make one word: nothing stands between them, or only a continued line."""
    groups: list[list[Node]] = []
    for node in nodes:
        if groups and source[groups[-1][-1].end_byte : node.start_byte] in (b"", b"\\\n"):
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


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
