"""Fingerprint Python files, to tell whether somebody changed what they do."""

import ast
import gzip
import hashlib
import inspect
import io
import json
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from extractor.values import readers, resources

_LENGTH = 12
_SHORT = 8
_HISTORY = "history.json.gz"
# Different between versions of Python; and of no effect on what is computed.
_VERSION = frozenset({"ctx", "kind", "type_comment", "type_ignores", "type_params"})
_WITHOUT = _VERSION | {"annotation", "returns"}
_IMPORTS = (ast.Import, ast.ImportFrom)
_SAYS = frozenset({"print", "logger", "logging", "warnings"})


def fingerprint(tree: ast.AST) -> str:
    """Return 12 hexadecimal digits that tell what code computes.

    Comments, docstrings, type annotations, imports, and statements that only print or log make no difference; nor does
    the version of Python that reads the file.

    Args:
        tree: Of the file, or of one statement in it.
    """
    return hashlib.sha256("\n".join(_list_words(tree)).encode()).hexdigest()[:_LENGTH]


def fingerprint_statement(statement: ast.stmt) -> str:
    """Return 8 hexadecimal digits of a top-level statement."""
    return fingerprint(statement)[:_SHORT]


def is_equal_but_for_layout(old: str, new: str) -> bool:
    """Tell whether two Python texts differ in nothing but their layout."""
    with suppress(SyntaxError, tokenize.TokenError):
        return fingerprint_with_comments(old) == fingerprint_with_comments(new)
    return False


def fingerprint_with_comments(text: str) -> str:
    """Return 8 hexadecimal digits of a statement with its comments.

    Unlike by `fingerprint_statement`, comments, docstrings, annotations, and what is printed or logged make a
    difference; imports, which vextract redirects, and layout do not.

    Args:
        text: The statement's, with the comments above it.

    Raises:
        SyntaxError: it is no Python.
    """
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    words = [word for node in readers.parse_python(text).body for word in _list_words(node, everything=True)]
    return hashlib.sha256("\n".join((*words, *comments)).encode()).hexdigest()[:_SHORT]


def fingerprint_text(text: str) -> str:
    """Return 8 hexadecimal digits of a file that is not Python."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:_SHORT]


def load_upstream_parts() -> frozenset[str]:
    """Return fingerprints of all statements and files upstream ever had."""
    return frozenset(_read_history()["parts"])


def load_upstream_texts() -> frozenset[str]:
    """Return the fingerprints of all statements with comments upstream ever had."""
    return frozenset(_read_history()["texts"])


def load_upstream_files() -> dict[str, frozenset[str]]:
    """Return the fingerprints of all versions of files that decide training."""
    return {path: frozenset(found) for path, found in _read_history()["files"].items()}


def load_upstream_programs() -> frozenset[str]:
    """Return the fingerprints of reward managers that upstream's programs defined."""
    return frozenset(_read_history()["programs"])


def load_upstream_key_names() -> frozenset[str]:
    """Return all names that upstream's config keys ever consisted of."""
    return frozenset(_read_history()["keys"])


@cache
def _read_history() -> dict[str, Any]:
    """Read what scripts/history.py wrote."""
    return json.loads(gzip.decompress(resources.find_own_manifests().joinpath(_HISTORY).read_bytes()))  # type: ignore[no-any-return]


def _list_words(node: ast.AST, *, everything: bool = False) -> Iterator[str]:
    """Yield a tree's words, without layout; everything: also prints and docstrings."""
    if everything and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield inspect.cleandoc(node.value.value) if isinstance(node.value.value, str) else repr(node.value.value)
        return
    yield f"({type(node).__name__}"
    for name, value in ast.iter_fields(node):
        if name in (_VERSION if everything else _WITHOUT) or value is None or value == []:
            continue
        yield f".{name}"
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, ast.AST):
                yield repr(item)
            elif not (isinstance(item, _IMPORTS) if everything else _is_silent(item)):
                yield from _list_words(item, everything=everything)
    yield ")"


def _is_silent(node: ast.AST) -> bool:
    """Tell whether a statement only imports, documents, prints or logs."""
    if isinstance(node, _IMPORTS):
        return True
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return True
    called = node.value.func if isinstance(node.value, ast.Call) else None
    while isinstance(called, ast.Attribute):
        called = called.value
    return isinstance(called, ast.Name) and called.id in _SAYS
