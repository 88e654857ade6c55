"""Rename a config file's keys, keeping comments, values and order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from extractor.values.configtree.yaml_text import Document, Entry, Key, UnsupportedYaml, shift_lines

_STEP = 2


@dataclass(frozen=True)
class _Moved:
    """Holds a key with its subtree, and its new path."""

    path: Key
    entry: Entry
    remarks: tuple[str, ...]


def rename_keys(text: str, rename: Callable[[str], str | None]) -> str:
    """Return a config file with another release's key names.

    Args:
        text: The file; its keys start at the top of the config.
        rename: The new name of a dotted key; None where it keeps its name.

    Raises:
        Unsupported: the file cannot be taken apart, or a section would be in two places.
    """
    document = Document.of(text)
    parts, done = [], 0
    tops = [entry for path, entry in document.entries.items() if len(path) == 1]
    taken = {entry.path[0] for entry in tops if not _is_renamed(document, entry, rename)}
    for entry in tops:
        if not _is_renamed(document, entry, rename):
            continue
        moved = list(_list_moved(document, entry, rename, ()))
        sections = {item.path[0] for item in moved}
        if sections & taken:
            raise UnsupportedYaml(f"{', '.join(sorted(sections & taken))} twice")
        taken |= sections
        start = entry.start - sum(len(line) + 1 for line in document.remarks(entry))
        parts += [text[done:start], *_write_moved(document, moved)]
        done = entry.end
    return Document.of("".join((*parts, text[done:]))).text


def _rename_path(path: Key, rename: Callable[[str], str | None]) -> Key:
    name = rename(".".join(path))
    return path if name is None else tuple(name.split("."))


def _list_entries_below(document: Document, entry: Entry) -> list[Entry]:
    depth = len(entry.path)
    return [other for path, other in document.entries.items() if path[:depth] == entry.path and len(path) > depth]


def _is_renamed(document: Document, entry: Entry, rename: Callable[[str], str | None]) -> bool:
    return any(_rename_path(item.path, rename) != item.path for item in (entry, *_list_entries_below(document, entry)))


def _list_moved(
    document: Document, entry: Entry, rename: Callable[[str], str | None], above: tuple[str, ...]
) -> Iterator[_Moved]:
    """Yield the largest subtrees of a section that move whole."""
    remarks = (*above, *(line.strip() for line in document.remarks(entry)))
    inside, place = _list_entries_below(document, entry), _rename_path(entry.path, rename)
    depth = len(entry.path)
    if all(_rename_path(item.path, rename) == (*place, *item.path[depth:]) for item in inside):
        yield _Moved(place, entry, remarks)
        return
    for child in [item for item in inside if len(item.path) == depth + 1]:
        yield from _list_moved(document, child, rename, remarks)
        remarks = ()


def _write_moved(document: Document, moved: list[_Moved]) -> Iterator[str]:
    """Yield the text of moved settings, each section opened once."""
    opened: Key = ()
    for item in moved:
        shared = 0
        while shared < min(len(opened), len(item.path) - 1) and opened[shared] == item.path[shared]:
            shared += 1
        for depth in range(shared, len(item.path) - 1):
            yield f"{' ' * _STEP * depth}{item.path[depth]}:\n"
        opened = item.path[:-1]
        indent = " " * _STEP * len(opened)
        yield from (f"{indent}{line}\n" for line in item.remarks)
        yield f"{indent}{item.path[-1]}:{shift_lines(document.raw(item.entry), len(indent) - item.entry.indent)}"
