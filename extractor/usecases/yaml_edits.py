"""Find an owner's edits in a YAML file by key."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile

from extractor.values.configtree.yaml_text import Document, Entry, Key

# A reference to a key in a value.
_REFERENCE = re.compile(r"(\$\{(?:oc\.\w+:)?)([A-Za-z_]\w*(?:\.\w+)+)")


@dataclass(frozen=True)
class YamlEdit:
    """Holds what the owner made of one key.

    Attributes:
        entry: The owner's.
        was: What was emitted; None for a key that the owner added.
        within: For such a key: the innermost section or value of those emitted that it stands in.
        holder: The owner's entry of that name, where it was a value and has become a section.
    """

    entry: Entry
    was: Entry | None
    within: Key = ()
    holder: Entry | None = None


def find_edits(before: Document, mine: Document) -> Iterable[YamlEdit]:
    """Yield keys that the owner changed or added, except defaults lists."""
    for path, entry in mine.entries.items():
        if entry.section or path == ("defaults",):
            continue
        was = before.entries.get(path)
        if was is not None:
            if not was.section and was.value != entry.value:
                yield YamlEdit(entry, was)
            continue
        within = next((path[:end] for end in range(len(path) - 1, 0, -1) if path[:end] in before.entries), ())
        grown = bool(within) and not before.entries[within].section
        yield YamlEdit(entry, None, within, mine.entries[within] if grown else None)


def undo_edits(
    mine: Document, before: Document, undone: Mapping[Entry, str | None], rewritten: Mapping[Entry, str]
) -> str:
    """Replace, remove or restore entries in the owner's text."""
    pieces = {entry.path: raw for entry, raw in (*undone.items(), *rewritten.items())}
    for path, entry in reversed(list(mine.entries.items())):
        if not entry.section or path in before.entries:
            continue
        inside = [other for other in mine.entries if other[:-1] == path]
        if all(pieces.get(other, "") is None for other in inside):
            # Nothing is left of a section that the owner had added.
            pieces = {other: raw for other, raw in pieces.items() if other not in inside} | {path: None}
    text = mine.text
    for path, raw in sorted(pieces.items(), key=lambda item: mine.entries[item[0]].start, reverse=True):
        entry = mine.entries[path]
        above = text[: entry.start]
        # The owner's own remarks go along with the value.
        for line in reversed(find_own_remarks(mine, entry, before) if entry not in rewritten else []):
            above = above.removesuffix(f"{line}\n")
        text = above + (text[entry.start : entry.colon] + raw if raw is not None else "") + text[entry.end :]
    return text


def find_own_remarks(mine: Document, entry: Entry, before: Document) -> list[str]:
    """Return the comment lines above an entry that the owner wrote."""
    known = set(before.text.splitlines())
    return list(takewhile(lambda line: line not in known, reversed(mine.remarks(entry))))[::-1]


def rename_references(raw: str, named: Callable[[str], str | None]) -> str:
    """Rename keys in a value's references; None from `named` keeps one."""
    return _REFERENCE.sub(lambda match: match.group(1) + (named(match.group(2)) or match.group(2)), raw)


def join_key(package: str, path: Key) -> str:
    """Return a key's whole dotted name below a package."""
    return ".".join([package, *path] if package else path)


def make_relative(package: str, key: str) -> Key | None:
    """Return a key relative to a package; None if outside it."""
    if not package:
        return tuple(key.split("."))
    return tuple(key.removeprefix(f"{package}.").split(".")) if key.startswith(f"{package}.") else None
