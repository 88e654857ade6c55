"""Edit the text of a YAML file key by key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from extractor.values import readers
from extractor.values.configtree.settings import write_in_one_line

# The names of a key, and of the sections that it stands in.
Key = tuple[str, ...]

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
_STEP = 2


class UnsupportedYaml(ValueError):
    """Refuses YAML with anchors, or keys that share a line."""


@dataclass(frozen=True)
class Entry:
    """One key of a block mapping.

    Attributes:
        path: The key, below those that it stands in.
        start: Where its line begins.
        colon: Behind the colon.
        stop: Behind the value.
        end: Behind its last line.
        indent: Column of the key.
        section: True for a block mapping, whose keys are entries of their own.
        value: What it means, to compare; "" for a section.
        shown: The same in one line, to read.
        inner: The keys of a mapping that is written in braces, each with the text of its value.
        empty: True for null and {}.
    """

    path: Key
    start: int
    colon: int
    stop: int
    end: int
    indent: int
    section: bool
    value: str
    shown: str
    inner: tuple[tuple[str, str], ...] = ()
    empty: bool = False


@dataclass(frozen=True)
class Document:
    """A file's text and its entries, in order."""

    text: str = field(repr=False)
    entries: Mapping[Key, Entry] = field(repr=False)

    @classmethod
    def of(cls, text: str) -> Document:
        """Take a file apart.

        Raises:
            Unsupported: it cannot be.
        """
        try:
            readers.check_yaml(text)
            if any(getattr(event, "anchor", None) for event in yaml.parse(text, Loader=_Loader)):
                raise UnsupportedYaml("anchors")
            node = yaml.compose(text, Loader=_Loader)
        except (yaml.YAMLError, ValueError) as error:
            raise UnsupportedYaml(str(error)) from None
        entries: dict[Key, Entry] = {}
        if node is not None:
            if not isinstance(node, yaml.MappingNode) or node.flow_style:
                raise UnsupportedYaml("no block mapping")
            for entry in _list_entries(node, text, ()):
                if entry.path in entries:
                    raise UnsupportedYaml("a key twice")
                entries[entry.path] = entry
        return cls(text, entries)

    def raw(self, entry: Entry) -> str:
        """Return an entry's text behind its colon, to the line's end."""
        text = self.text[entry.colon : entry.end]
        return text if text.endswith("\n") else f"{text}\n"

    def comment(self, entry: Entry) -> str:
        """Return the comment behind a value, with the space before it."""
        return self.text[entry.stop : entry.end].rstrip("\n")

    def remarks(self, entry: Entry) -> tuple[str, ...]:
        """Return the lines of comment directly above an entry."""
        found: list[str] = []
        for line in reversed(self.text[: entry.start].splitlines()):
            if not line.strip().startswith("#"):
                break
            found.insert(0, line)
        return tuple(found)


@dataclass(frozen=True)
class Value:
    """A value as its owner wrote it.

    Attributes:
        raw: The text behind the colon, with the end of the last line.
        indent: Column of the key that it stood at.
        comment: What stands behind it on the line, where that is the owner's own; part of `raw`.
        remarks: Lines of comment above it, without their indentation.
    """

    raw: str
    indent: int = 0
    comment: str = ""
    remarks: tuple[str, ...] = ()


def put(text: str, path: Key, value: Value) -> str | None:
    """Set a key; return None if its place cannot hold it.

    What stands on the line behind the old value stays, unless the owner wrote something there.
    """
    if not all(re.fullmatch(r"[\w-]+", part) for part in path):
        return None
    document = Document.of(text)
    entry = document.entries.get(path)
    changed = _insert(document, path, value) if entry is None else _replace(document, entry, value)
    try:
        return changed if changed is not None and path in Document.of(changed).entries else None
    except UnsupportedYaml:
        return None


def _replace(document: Document, entry: Entry, value: Value) -> str | None:
    if entry.section:
        return None
    text, raw = document.text, shift_lines(value.raw, entry.indent - value.indent)
    left = document.comment(entry)
    if left.strip() and not value.comment.strip() and raw.count("\n") == 1:
        raw = f"{raw.rstrip()}{left}\n"
    above = text[: entry.start] + _find_above(value, entry.indent)
    return above + text[entry.start : entry.colon] + raw + text[entry.end :]


def _insert(document: Document, path: Key, value: Value) -> str | None:
    text = document.text if document.text.endswith("\n") or not document.text else f"{document.text}\n"
    above = next((path[:end] for end in range(len(path) - 1, 0, -1) if path[:end] in document.entries), ())
    holder = document.entries.get(above)
    beside = [entry for entry in document.entries.values() if entry.path[:-1] == above]
    if holder is None or holder.section:
        indent = beside[0].indent if beside else 0
        at = max((entry.end for entry in beside), default=len(text))
        return text[:at] + _write_lines(path[len(above) :], value, indent) + text[at:]
    if not holder.empty:
        return None
    block = _write_lines(path[len(above) :], value, holder.indent + _STEP)
    return f"{text[: holder.colon]}{document.comment(holder)}\n{block}{text[holder.end :]}"


def _write_lines(path: Key, value: Value, indent: int) -> str:
    *sections, name = path
    lines = [f"{' ' * (indent + _STEP * depth)}{section}:\n" for depth, section in enumerate(sections)]
    at = indent + _STEP * len(sections)
    return "".join((*lines, _find_above(value, at), f"{' ' * at}{name}:", shift_lines(value.raw, at - value.indent)))


def _find_above(value: Value, indent: int) -> str:
    return "".join(f"{' ' * indent}{line}\n" for line in value.remarks)


def shift_lines(raw: str, by: int) -> str:
    """Indent or dedent all lines but the first."""
    first, *rest = raw.splitlines(keepends=True)
    moved = []
    for line in rest:
        room = len(line) - len(line.lstrip(" "))
        moved.append(" " * max(0, room + by) + line.lstrip(" ") if line.strip() else line)
    return "".join((first, *moved))


def _list_entries(node: yaml.MappingNode, text: str, above: Key) -> Iterator[Entry]:
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise UnsupportedYaml("a key that is no word")
        start = text.rfind("\n", 0, key.start_mark.index) + 1
        if text[start : key.start_mark.index].strip():
            raise UnsupportedYaml("a key behind something else")
        colon = text.index(":", key.end_mark.index) + 1
        stop = max(colon, _stop(value, text))
        line = text.find("\n", stop)
        end = len(text) if line < 0 else line + 1
        path = (*above, str(key.value))
        section = isinstance(value, yaml.MappingNode) and bool(value.value) and not value.flow_style
        indent = key.start_mark.column
        if section:
            yield Entry(path, start, colon, stop, end, indent, True, "", "")
            yield from _list_entries(value, text, path)
            continue
        empty = value.tag == _NULL or (isinstance(value, yaml.MappingNode) and not value.value)
        shown = write_in_one_line(value)
        yield Entry(
            path, start, colon, stop, end, indent, False, _read_meaning(value), shown, _cut_inner(value, text), empty
        )


def _stop(node: yaml.Node, text: str) -> int:
    """Return where a node's own text ends."""
    if isinstance(node, yaml.ScalarNode):
        if node.style in ("|", ">"):
            return len(text[: node.end_mark.index].rstrip())
        return int(node.end_mark.index)
    if node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    if isinstance(node, yaml.MappingNode):
        return max(text.index(":", last[0].end_mark.index) + 1, _stop(last[1], text))
    return _stop(last, text)


def _read_meaning(node: yaml.Node) -> str:
    """Return a value with YAML's types: "1" is not 1."""
    if isinstance(node, yaml.ScalarNode):
        return f"{node.tag} {node.value if node.tag != _NULL else ''}"
    parts = node.value if isinstance(node, yaml.SequenceNode) else [item for pair in node.value for item in pair]
    return f"{node.tag} ({', '.join(map(_read_meaning, parts))})"


def _cut_inner(node: yaml.Node, text: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, yaml.MappingNode):
        return ()
    return tuple(
        (str(key.value), text[value.start_mark.index : value.end_mark.index])
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode)
    )
