"""Split a YAML file into pieces: sections and keys."""

from extractor.pipeline.merge.pieces import Piece, Unsupported
from extractor.values.configtree.yaml_text import Document, Entry, Key
from extractor.values.configtree.yaml_text import UnsupportedYaml as NoDocument

_END = "comments at the end"


def split_yaml(text: str) -> tuple[Piece, ...]:
    """Split a file into pieces; joined they give its text.

    Raises:
        Unsupported: it is no YAML, no mapping, has anchors, or several keys in a line.
    """
    if "\r" in text:
        raise Unsupported("line ends")
    text = text if text.endswith("\n") or not text else f"{text}\n"
    try:
        entries = list(Document.of(text).entries.values())
    except NoDocument as reason:
        raise Unsupported(str(reason)) from None
    ends = [text.index("\n", entry.colon) + 1 if entry.section else entry.end for entry in entries]
    starts = [0, *ends]
    pieces = [_split(entry.path[-1], text[start:end]) for entry, start, end in zip(entries, starts, ends, strict=False)]
    found = [piece for entry, piece in zip(entries, _nest_pieces(entries, pieces), strict=True) if len(entry.path) == 1]
    if starts[-1] < len(text):
        found.append(_split(_END, text[starts[-1] :]))
    return tuple(found)


def _split(key: str, text: str) -> Piece:
    core = text.lstrip("\n")
    return Piece(key, text[: len(text) - len(core)], core)


def _nest_pieces(entries: list[Entry], pieces: list[Piece]) -> list[Piece]:
    """Nest pieces into the pieces of their sections."""
    inside: dict[Key, list[Piece]] = {}
    found: list[Piece] = []
    for entry, piece in zip(reversed(entries), reversed(pieces), strict=True):
        parts = tuple(reversed(inside.pop(entry.path, [])))
        whole = Piece(piece.key, piece.lead, piece.head, parts)
        inside.setdefault(entry.path[:-1], []).append(whole)
        found.append(whole)
    return found[::-1]
