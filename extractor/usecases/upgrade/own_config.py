"""Rename settings in the owner's config files.

Such are presets, and what `--from-verl-run` and `adopt` have written beside a project's own files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile

from extractor.usecases.changes.config_keys import MAIN, collect_keys, select_below_config, select_emitted_config
from extractor.usecases.owner_edits import find_own_remarks, join_key, make_relative, rename_references, undo_edits
from extractor.usecases.upgrade.settings import Moved
from extractor.values.config_files import FOLDER, is_config
from extractor.values.configtree.settings import map_packages
from extractor.values.configtree.yaml_text import Document, Key, UnsupportedYaml, Value, put
from extractor.values.tree import Tree


def rename_own_settings(
    own: Mapping[str, bytes], base: Mapping[str, bytes], new: Tree, renamed: Callable[[str], str | None]
) -> tuple[dict[str, bytes], tuple[Moved, ...]]:
    """Rename the settings in the owner's own config files.

    What has no new name, or stands where a file cannot set it, stays as it is.

    Args:
        own: The files, by path in the project.
        base: What was emitted, by path.
        new: What is emitted now.
        renamed: New names of keys; None for a key that keeps its name.

    Returns:
        The files that change, and the settings that have another name now.
    """
    before = {path: data.decode() for path, data in base.items() if is_config(path)}
    known = collect_keys(select_below_config(select_emitted_config(new)))

    def name_of(key: str) -> str | None:
        """Return a key's new name, or None if unchanged or removed."""
        name = None if key in known else renamed(key)
        parts = name.split(".") if name is not None else []
        # What stands in a section that takes anything, `reward_kwargs`, is no key of the release.
        return name if any(".".join(parts[:end]) in known for end in range(len(parts), 0, -1)) else None

    texts: dict[str, str] = {}
    for path, data in sorted(own.items()):
        text = data.decode(errors="replace")
        if text.encode() == data and "\r" not in text:
            texts[path] = text
    places = map_packages(select_below_config({**before, **texts}), MAIN)
    files: dict[str, bytes] = {}
    moved: list[Moved] = []
    for path, text in texts.items():
        found = places.get(path.removeprefix(FOLDER), ())
        if len(found) != 1:
            continue
        try:
            changed, told = _rename(path, text, found[0], name_of)
        except UnsupportedYaml:
            continue
        if changed != text:
            files[path] = changed.encode()
            moved += told
    return files, tuple(moved)


def _rename(path: str, text: str, package: str, name_of: Callable[[str], str | None]) -> tuple[str, list[Moved]]:
    document, changed = Document.of(text), text
    # The leading comments belong to no setting.
    leading = takewhile(lambda line: not line.strip() or line.startswith("#"), text.split("\n"))
    head = Document.of("".join(f"{line}\n" for line in leading) + "_: 0\n")
    gone: list[Key] = []
    taken: dict[Key, str] = {}  # names that have a value by now
    told: list[Moved] = []
    for place, entry in document.entries.items():
        key = join_key(package, place)
        name = None if entry.section else name_of(key)
        inside = make_relative(package, name) if name is not None else None
        if name is None or inside is None or inside in document.entries:
            continue
        if taken.get(inside, entry.value) != entry.value:
            continue
        remarks = tuple(line.strip() for line in find_own_remarks(document, entry, head))
        value = Value(rename_references(document.raw(entry), name_of), entry.indent, "", remarks)
        written = put(changed, inside, value)
        if written is not None:
            changed = written
            gone.append(place)
            taken[inside] = entry.value
            told.append(Moved(key, name, entry.shown, path, path))
    document = Document.of(changed)
    rewritten = {}
    for entry in document.entries.values():
        raw = None if entry.section or entry.path in gone else document.raw(entry)
        if raw is not None and (now := rename_references(raw, name_of)) != raw:
            rewritten[entry] = now
            key = join_key(package, entry.path)
            told.append(Moved(key, key, now.strip(), path, path, referring=True))
    return undo_edits(document, head, {document.entries[place]: None for place in gone}, rewritten), told
