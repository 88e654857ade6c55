"""Merge a file three ways: by Python symbol, key or line."""

from pathlib import PurePosixPath

from extractor.pipeline.merge.lines import Labels, Merged, has_turned_to_crlf, merge_lines
from extractor.pipeline.merge.pieces import Grammar, Piece, Unsupported, find_changed, merge_pieces
from extractor.pipeline.merge.python import FIRST, add_missing_imports, split_python
from extractor.pipeline.merge.statements import is_no_edit, is_python, is_same_python, merge_again
from extractor.pipeline.merge.toml_keys import split_toml
from extractor.pipeline.merge.yaml_keys import split_yaml
from extractor.pipeline.rewrite.header import copy_header
from extractor.values.indentation import reindent

_TAKEN_APART = {".py": split_python, ".toml": split_toml, ".yaml": split_yaml, ".yml": split_yaml}

_PYTHON = Grammar(is_no_edit, merge_again, FIRST)


def merge_file(path: str, base: bytes, ours: bytes, theirs: bytes, labels: Labels) -> Merged:
    """Merge one file three ways; all sides must be `is_mergeable`.

    Where the file can be taken apart, an edit stays in the symbol, or at the key, that it was made in: the pieces in
    which the merged file differs from theirs are those in which ours differs from the base, or it is a conflict.

    Raises:
        UsageError: git is not installed, or cannot merge.
    """
    base, ours = copy_header(theirs, base, base), copy_header(theirs, ours, base)
    if base in (ours, theirs) or ours == theirs:
        return merge_lines(base, ours, theirs, labels)
    crlf = has_turned_to_crlf(ours, base, theirs)
    try:
        mine = ours.replace(b"\r\n", b"\n") if crlf else ours
        texts = [side.decode("utf-8").removeprefix("\ufeff") for side in (base, mine, theirs)]
        if path.endswith(".py"):
            texts[1] = reindent(texts[1])
        sides = [split_pieces(path, text) for text in texts]
    except (UnicodeDecodeError, Unsupported):
        return merge_lines(base, ours, theirs, labels)
    merged = merge_pieces(sides[0], sides[1], sides[2], labels, _PYTHON if path.endswith(".py") else None)
    if merged.conflicts:
        by_line = _merge_by_line(texts, labels)
        if not by_line.conflicts and _is_faithful(path, sides, by_line.data):
            merged = by_line
    elif path.endswith(".py"):
        merged = Merged(add_missing_imports(merged.data.decode(), texts[2], texts[1]).encode(), 0)
        if not is_python(merged.data.decode()):
            merged = _write_conflict(texts, labels)
    data = _end_like(merged.data, mine, base, theirs)
    data = data.replace(b"\n", b"\r\n") if crlf else data
    return Merged(b"\xef\xbb\xbf" * ours.startswith(b"\xef\xbb\xbf") + data, merged.conflicts)


def is_layout(path: str, base: bytes, ours: bytes) -> bool:
    """Tell whether two versions differ in layout and line ends only."""
    ours = copy_header(base, ours, base)
    if has_turned_to_crlf(ours, base, base):
        ours = ours.replace(b"\r\n", b"\n")
    if base == ours or not path.endswith(".py"):
        return base == ours
    try:
        return is_same_python(base.decode("utf-8"), reindent(ours.decode("utf-8").removeprefix("\ufeff")))
    except UnicodeDecodeError:
        return False


def split_pieces(path: str, text: str) -> tuple[Piece, ...]:
    """Take a file apart.

    Raises:
        Unsupported: it cannot be, or is of a kind that has no pieces.
    """
    take_apart = _TAKEN_APART.get(PurePosixPath(path).suffix)
    if take_apart is None:
        raise Unsupported(path)
    return take_apart(text)


def _is_faithful(path: str, sides: list[tuple[Piece, ...]], data: bytes) -> bool:
    """Tell whether a merge applies exactly our changes to theirs."""
    try:
        merged = split_pieces(path, data.decode("utf-8").replace("\r\n", "\n").removeprefix("\ufeff"))
    except (UnicodeDecodeError, Unsupported):
        return False
    base, ours, theirs = sides
    return find_changed(theirs, merged) == find_changed(base, ours) & find_changed(theirs, ours)


def _merge_by_line(texts: list[str], labels: Labels) -> Merged:
    base, ours, theirs = (text.encode() for text in texts)
    return merge_lines(base, ours, theirs, labels)


def _write_conflict(texts: list[str], labels: Labels) -> Merged:
    """Return a merge with conflict markers, by line or whole texts."""
    by_line = _merge_by_line(texts, labels)
    if by_line.conflicts or is_python(by_line.data.decode()):
        return by_line
    base, ours, theirs = (text if text.endswith("\n") else f"{text}\n" for text in texts)
    marked = f"<<<<<<< {labels.ours}\n{ours}||||||| {labels.base}\n{base}=======\n{theirs}>>>>>>> {labels.theirs}\n"
    return Merged(marked.encode(), 1)


def _end_like(data: bytes, ours: bytes, base: bytes, theirs: bytes) -> bytes:
    """End merged bytes like the side that changed the ending."""
    ended = theirs if ours.endswith(b"\n") == base.endswith(b"\n") else ours
    return data if ended.endswith(b"\n") or not data else data.removesuffix(b"\n")
