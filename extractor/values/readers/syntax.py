"""Parse untrusted Python source; nothing is run."""

import ast
import codecs
import io
import re
import tokenize
import warnings
from functools import lru_cache
from typing import Literal

from extractor.values import limits
from extractor.values.readers.files import write_size

# What stands below a node and holds no other.
_LEAVES = frozenset({ast.Name, ast.Constant, ast.Load, ast.Store, ast.Del, ast.alias, int, str, type(None)})
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def split_lines(text: str) -> list[str]:
    """Split into lines as Python does; `str.splitlines` splits at form feeds."""
    return _LINE.findall(text)


def decode_python(data: bytes) -> str:
    """Decode a Python file without byte order mark; line ends stay.

    Raises:
        SyntaxError: it is larger than we read, not UTF-8, declares another encoding, or holds null bytes.
    """
    if len(data) > limits.MAX_TEXT:
        raise SyntaxError(f"larger than {write_size(limits.MAX_TEXT)}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = SyntaxError(f"not UTF-8 ({error.reason})")
        wrong.lineno = data.count(b"\n", 0, error.start) + 1
        raise wrong from None
    declared, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    if codecs.lookup(declared).name not in ("utf-8", "utf-8-sig", "ascii"):
        raise SyntaxError(f"its encoding is {declared}, and only UTF-8 is read")
    if "\0" in text:
        raise SyntaxError("it holds null bytes")
    return text


def parse_python(source: str | bytes) -> ast.Module:
    """Parse Python silently; nothing is run.

    Raises:
        SyntaxError: it is none, or is larger or nested deeper than we read.
    """
    tree = _parse_text(decode_python(source) if isinstance(source, bytes) else source.removeprefix("\ufeff"), "exec")
    assert isinstance(tree, ast.Module)
    return tree


def parse_python_or_nothing(source: str | bytes) -> ast.Module:
    """Parse Python; an empty module where it is none."""
    try:
        return parse_python(source)
    except SyntaxError:
        return ast.Module([], [])


@lru_cache(maxsize=32)
def parse_python_cached(text: str) -> ast.Module:
    """Parse Python with a cache; do not change the tree.

    Raises:
        SyntaxError: as `python`.
    """
    return parse_python(text)


def parse_expression(text: str) -> ast.expr | None:
    """Parse an expression; None if invalid or nested too deep."""
    try:
        tree = _parse_text(text.strip(), "eval")
    except SyntaxError:
        return None
    assert isinstance(tree, ast.Expression)
    return tree.body


def _parse_text(text: str, mode: Literal["exec", "eval"]) -> ast.AST:
    if len(text) > limits.MAX_TEXT:
        raise SyntaxError(f"larger than {write_size(limits.MAX_TEXT)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree: ast.AST = ast.parse(text, mode=mode)
        except (RecursionError, MemoryError):
            raise _explain_depth() from None
        except ValueError as error:
            raise SyntaxError(str(error)) from None
    level = [tree]
    for _ in range(limits.MAX_PYTHON_DEPTH):
        level = _list_children(level)
        if not level:
            return tree
    raise _explain_depth()


def _list_children(nodes: list[ast.AST]) -> list[ast.AST]:
    """Return the children that have children; faster than `ast.iter_child_nodes`."""
    found: list[ast.AST] = []
    for node in nodes:
        for value in vars(node).values():
            if value.__class__ is list:
                found += value
            elif value.__class__ not in _LEAVES:
                found.append(value)
    return [item for item in found if item.__class__ not in _LEAVES]


def _explain_depth() -> SyntaxError:
    return SyntaxError(f"nested more than {limits.MAX_PYTHON_DEPTH} levels deep")
