"""The text of a manifest, laid out as those in `manifests/`."""

from __future__ import annotations

from collections.abc import Mapping

import tomlkit
from tomlkit.items import Item

WIDTH = 120


def write_manifest(data: Mapping[str, object], comment: str) -> str:
    """TOML of a manifest, or of what one states beyond its predecessor.

    Args:
        data: As `combine` and `difference` give it.
        comment: The first line, without the hash.
    """
    document = tomlkit.document()
    document.add(tomlkit.comment(comment))
    for key, value in data.items():
        document.add(key, _item(key, value))
    return tomlkit.dumps(document).replace("\n\n\n", "\n\n")


def _item(key: str, value: object) -> Item:
    if isinstance(value, Mapping):
        if value and set(value) <= {"add", "drop"}:
            change = tomlkit.inline_table()
            change.update({name: _item(name, part) for name, part in value.items()})
            return change
        table = tomlkit.table(is_super_table=bool(value) and all(isinstance(part, Mapping) for part in value.values()))
        for name, part in value.items():
            table.add(name, _item(name, part))
        return table
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        entries = tomlkit.aot()
        for entry in value:
            entries.append(_item(key, entry))
        return entries
    if isinstance(value, list):
        array = tomlkit.array()
        array.extend(value)
        return array.multiline(len(f"{key} = {array.as_string()}") > WIDTH)
    return tomlkit.item(value)
