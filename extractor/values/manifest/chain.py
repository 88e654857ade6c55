"""Merge a manifest with its predecessor's.

Tables are combined key by key. An array of strings is replaced, or changed by `{add = [...], drop = [...]}`. An array
of tables is combined by what names its entries: a fix by its `id`, a replacement by its `symbol`. `[drop]` takes away
what the release no longer has: `fixes = ["id"]`, `roles = ["name"]`, `"features.critic" = ["cut"]`.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from extractor.values.errors import UsageError

Data: TypeAlias = Mapping[str, object]

# What says something about one release only.
OWN_KEYS = ("release", "follows", "source", "renamed_keys")
NAMES = {"fixes": "id", "replacements": "symbol"}


class ChainError(UsageError):
    """A manifest that does not fit its predecessor."""


def combine(older: Data, newer: Data) -> dict[str, object]:
    """Return what a release's manifest says in full.

    Args:
        older: The predecessor's manifest, in full.
        newer: What the release states.

    Raises:
        ChainError: it drops or adds to something that the predecessor has not, or adds what it has.
    """
    inherited = {key: value for key, value in older.items() if key not in OWN_KEYS}
    for path, names in _require_table(newer.get("drop", {}), "drop").items():
        inherited = _drop_names(inherited, path.split("."), _require_string_list(names, f"drop.{path}"), f"drop.{path}")
    return _combine_tables(inherited, {key: value for key, value in newer.items() if key != "drop"}, "")


def _combine_tables(older: Data, newer: Data, path: str) -> dict[str, object]:
    result = dict(older)
    for key, value in newer.items():
        before, where = result.get(key), f"{path}.{key}" if path else key
        if isinstance(before, list) and isinstance(value, Mapping):
            result[key] = _change_entries(before, value, where)
        elif isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = _combine_tables(before, value, where)
        elif where in NAMES and isinstance(before, Sequence) and isinstance(value, Sequence):
            result[key] = _replace_entries(before, value, NAMES[where])
        else:
            result[key] = value
    return result


def _change_entries(before: list[str], change: Data, where: str) -> list[str]:
    result = list(before)
    for item in _require_string_list(change.get("drop", []), f"{where}.drop"):
        if item not in result:
            raise ChainError(f"key `{where}`: drops {item!r}, which is not there", hint="take it out of `drop`")
        result.remove(item)
    for item in _require_string_list(change.get("add", []), f"{where}.add"):
        if item in result:
            raise ChainError(f"key `{where}`: adds {item!r}, which is there", hint="take it out of `add`")
        result.append(item)
    return result


def _replace_entries(before: Sequence[Data], stated: Sequence[Data], name: str) -> list[Data]:
    """Replace the predecessor's entries of the same name."""
    names = {entry.get(name) for entry in stated}
    kept = [entry for entry in before if entry.get(name) not in names]
    return [*kept, *stated]


def _drop_names(data: Data, path: list[str], names: Sequence[str], where: str) -> dict[str, object]:
    head, rest = path[0], path[1:]
    if head not in data:
        raise ChainError(f"key `{where}`: the release before has no {head!r}", hint="take it out of `drop`")
    part = data[head]
    if rest:
        return {**data, head: _drop_names(_require_table(part, where), rest, names, where)}
    left: object
    if isinstance(part, Mapping):
        known = list(part)
        left = {key: value for key, value in part.items() if key not in names}
    else:
        name = NAMES.get(head, "")
        entries = [_require_table(entry, where) for entry in part] if isinstance(part, list) and name else []
        known = [str(entry.get(name)) for entry in entries]
        left = [entry for entry in entries if entry.get(name) not in names]
    for item in names:
        if item not in known:
            raise ChainError(f"key `{where}`: drops {item!r}, which is not there", hint="take it out of `drop`")
    return {**data, head: left}


def _require_table(value: object, where: str) -> Data:
    if not isinstance(value, Mapping):
        raise ChainError(f"key `{where}`: is {value!r}", hint="it must be a table")
    return value


def _require_string_list(value: object, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ChainError(f"key `{where}`: is {value!r}", hint="it must be an array of strings")
    return value
