"""Write a manifest in the layout of those in `manifests/`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

import tomlkit
from tomlkit.items import Item

from extractor.values.manifest.chain import NAMES

WIDTH = 120

Remarks = Mapping[str, Sequence[str]]


def write_manifest(data: Mapping[str, object], comment: str, remarks: Remarks | None = None) -> str:
    """Write a manifest, or what it states beyond its predecessor.

    Args:
        data: As `combine` and `difference` give it.
        comment: The first line, without the hash.
        remarks: Further comments by the table that they stand in: "roles.actor", "fixes.ID", "drop.fixes" (then they
            stand at the top of `drop`); those of a table that is not there follow the first line.
    """
    remarks = remarks or {}
    document = tomlkit.document()
    said: set[str] = set()
    items = {key: _item(key, value, key, remarks, said) for key, value in data.items()}
    left = [text for where, texts in remarks.items() if where not in said for text in texts]
    for line in _lines([comment, *left]):
        document.add(tomlkit.comment(line))
    for key, item in items.items():
        document.add(key, item)
    return tomlkit.dumps(document).replace("\n\n\n", "\n\n")


def _item(key: str, value: object, where: str, remarks: Remarks, said: set[str]) -> Item:
    if isinstance(value, Mapping):
        if value and set(value) <= {"add", "drop"}:
            change = tomlkit.inline_table()
            change.update({name: _item(name, part, "", {}, said) for name, part in value.items()})
            return change
        comments = _comments(where, remarks, said)
        nested = bool(value) and not comments and all(isinstance(part, Mapping) for part in value.values())
        table = tomlkit.table(is_super_table=nested)
        for line in _lines(comments):
            table.add(tomlkit.comment(line))
        for name, part in value.items():
            table.add(name, _item(name, part, f"{where}.{name}", remarks, said))
        return table
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        entries = tomlkit.aot()
        for entry in value:
            entries.append(_item(key, entry, f"{where}.{entry.get(NAMES.get(where, ''))}", remarks, said))
        return entries
    if isinstance(value, list):
        array = tomlkit.array()
        array.extend(value)
        return array.multiline(len(f"{key} = {array.as_string()}") > WIDTH)
    return tomlkit.item(value)


def _comments(where: str, remarks: Remarks, said: set[str]) -> list[str]:
    """Return the remarks on a table."""
    names = [name for name in remarks if name == where or (where == "drop" and name.startswith("drop."))]
    names = [name for name in names if name not in said]
    said.update(names)
    return [text for name in names for text in remarks[name]]


def _lines(texts: Iterable[str]) -> list[str]:
    """Wrap comments; continued lines are indented."""
    return [
        line
        for text in texts
        for line in textwrap.wrap(
            text, WIDTH - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
    ]
