"""Rename settings in the owner's config files.

Such are presets, and what `--from-verl-run` and `adopt` have written beside a project's own files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import takewhile

from extractor.pipeline.plan import Action, Reason, Verdict
from extractor.usecases.changes.config_keys import MAIN, below_config
from extractor.usecases.upgrade.owner_edits import below, joined, own_remarks, referring, without
from extractor.usecases.upgrade.settings import Moved
from extractor.values.config_files import FOLDER, is_config
from extractor.values.configtree.settings import every_setting, packages
from extractor.values.configtree.yaml_text import Document, Key, UnsupportedYaml, Value, put
from extractor.values.tree import FileKind, Tree


@dataclass(frozen=True)
class Renamed:
    """Holds what becomes of such files.

    Attributes:
        files: Their new bytes, by path; those that stay are left out.
        moved: The settings that have another name now.
    """

    files: Mapping[str, bytes]
    moved: tuple[Moved, ...]

    def actions(self) -> list[Action]:
        """Return a verdict on each file."""
        counts = {path: sum(item.file == path for item in self.moved) for path in self.files}
        return [
            Action(path, Verdict.MERGE, FileKind.HOOK, Reason.RENAMED, data, note=f"{counts[path]} of yours")
            for path, data in self.files.items()
        ]


def rename_own_settings(
    own: Mapping[str, bytes], base: Mapping[str, bytes], new: Tree, renamed: Callable[[str], str | None]
) -> Renamed:
    """Rename the settings in the owner's own config files.

    What has no new name, or stands where a file cannot set it, stays as it is.

    Args:
        own: The files, by path in the project.
        base: What was emitted, by path.
        new: What is emitted now.
        renamed: New names of keys; None for a key that keeps its name.
    """
    before = {path: data.decode() for path, data in base.items() if is_config(path)}
    after = below_config({file.path: file.data.decode() for file in new if is_config(file.path)})
    names = _Names({item.key for item in every_setting(after, MAIN)}, renamed)
    texts = {path: data.decode() for path, data in own.items() if _is_plain(data)}
    places = packages(below_config({**before, **texts}), MAIN)
    files: dict[str, bytes] = {}
    moved: list[Moved] = []
    for path, text in sorted(texts.items()):
        found = places.get(path.removeprefix(FOLDER), ())
        if len(found) != 1:
            continue
        try:
            changed, told = _renamed(path, text, found[0], names)
        except UnsupportedYaml:
            continue
        if changed != text:
            files[path] = changed.encode()
            moved += told
    return Renamed(files, tuple(moved))


@dataclass(frozen=True)
class _Names:
    """Says what keys are called now.

    Attributes:
        known: The keys of the new release.
        renamed: New names of keys.
    """

    known: AbstractSet[str]
    renamed: Callable[[str], str | None]

    def of(self, key: str) -> str | None:
        """Return a key's new name; None if it keeps its own or has none."""
        name = None if key in self.known else self.renamed(key)
        parts = name.split(".") if name is not None else []
        # What stands in a section that takes anything, `reward_kwargs`, is no key of the release.
        return name if any(".".join(parts[:end]) in self.known for end in range(len(parts), 0, -1)) else None


def _renamed(path: str, text: str, package: str, names: _Names) -> tuple[str, list[Moved]]:
    document, changed, head = Document.of(text), text, _head(text)
    gone: list[Key] = []
    taken: dict[Key, str] = {}  # names that have a value by now
    told: list[Moved] = []
    for place, entry in document.entries.items():
        key = joined(package, place)
        name = None if entry.section else names.of(key)
        inside = below(package, name) if name is not None else None
        if (
            name is None
            or inside is None
            or inside in document.entries
            or taken.get(inside, entry.value) != entry.value
        ):
            continue
        remarks = tuple(line.strip() for line in own_remarks(document, entry, head))
        value = Value(referring(document.raw(entry), names.of), entry.indent, "", remarks)
        written = put(changed, inside, value)
        if written is not None:
            changed = written
            gone.append(place)
            taken[inside] = entry.value
            told.append(Moved(key, name, entry.shown, path, path))
    document = Document.of(changed)
    entries = document.entries.values()
    raws = {item: referring(document.raw(item), names.of) for item in entries if not item.section}
    rewritten = {item: raw for item, raw in raws.items() if raw != document.raw(item) and item.path not in gone}
    for item, raw in rewritten.items():
        key = joined(package, item.path)
        told.append(Moved(key, key, raw.strip(), path, path, referring=True))
    return without(document, head, {document.entries[place]: None for place in gone}, rewritten), told


def _head(text: str) -> Document:
    """Return a file's leading comments, which belong to no setting."""
    lines = takewhile(lambda line: not line.strip() or line.startswith("#"), text.split("\n"))
    return Document.of("".join(f"{line}\n" for line in lines) + "_: 0\n")


def _is_plain(data: bytes) -> bool:
    try:
        return "\r" not in data.decode()
    except UnicodeDecodeError:
        return False
