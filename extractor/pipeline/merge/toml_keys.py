"""Split a TOML file into pieces: tables, keys and list items."""

import re

from extractor.pipeline.merge.pieces import Piece, Unsupported, make_distinct
from extractor.values import readers

_TABLE = re.compile(r"\s*(\[\[?[^\]]+\]\]?)\s*(?:#.*)?$")
_ITEM = re.compile(r"\s*[\"'{]?\s*([\w.-]*)")
_END = "comments at the end"


def split_toml(text: str) -> tuple[Piece, ...]:
    """Split a file into pieces; joined they give its text.

    Raises:
        Unsupported: it is no TOML.
    """
    if "\r" in text:
        raise Unsupported("line ends")
    try:
        readers.parse_toml(text)
    except readers.TOMLDecodeError as error:
        raise Unsupported(str(error)) from None
    found: list[Piece] = []
    table: Piece | None = None
    parts: list[Piece] = []
    for key, lead, core in _split_statements(text):
        if _TABLE.fullmatch(core.rstrip("\n").rpartition("\n")[2]):
            if table is not None:
                found.append(Piece(table.key, table.lead, table.head, make_distinct(parts)))
            table, parts = Piece(key, lead, core), []
        elif table is None:
            found.append(_make_value(key, lead, core))
        else:
            parts.append(_make_value(key, lead, core))
    if table is not None:
        found.append(Piece(table.key, table.lead, table.head, make_distinct(parts)))
    return make_distinct(found)


def _split_statements(text: str) -> list[tuple[str, str, str]]:
    """Return key, leading blank lines and text of each statement."""
    found = []
    pending, start = "", None
    for line in text.splitlines(keepends=True):
        line = line if line.endswith("\n") else f"{line}\n"
        if start is None and (not line.strip() or line.lstrip().startswith("#")):
            pending += line
            continue
        start = line if start is None else start + line
        try:
            readers.parse_toml(start)
        except readers.TOMLDecodeError:
            continue
        named = _TABLE.fullmatch(start.rstrip("\n"))
        key = named.group(1) if named else start.partition("=")[0].strip()
        core = pending.lstrip("\n")
        found.append((key, pending[: len(pending) - len(core)], core + start))
        pending, start = "", None
    if start is not None:
        raise Unsupported("a statement that does not end")
    if pending:
        core = pending.lstrip("\n")
        found.append((_END, pending[: len(pending) - len(core)], core))
    return found


def _make_value(key: str, lead: str, core: str) -> Piece:
    """Make a piece of a key, with list items as parts."""
    lines = core.splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if not line.lstrip().startswith("#")) if key != _END else 0
    if key == _END or not lines[first].rstrip().endswith("[") or lines[-1].strip() != "]":
        return Piece(key, lead, core)
    items = [Piece(_name_item(line), "", line) for line in lines[first + 1 : -1]]
    return Piece(key, lead, "".join(lines[: first + 1]), (*make_distinct(items), Piece("]", "", lines[-1])))


def _name_item(line: str) -> str:
    """Return the key of an item, such as a requirement's name."""
    found = _ITEM.match(line)
    return found.group(1) if found and found.group(1) else line.strip()
