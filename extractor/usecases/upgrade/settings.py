"""Carry the owner's settings to their keys in the new release.

Merging by lines would conflict on a setting that has a new name or file. So each such setting is removed from the
owner's old file and written into the new one before the merge. The owner's own config files are presets, and files that
`--from-verl-run` and `adopt` wrote.
"""

import json
import posixpath
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter

from extractor.pipeline.generate import Generated
from extractor.usecases.changes.changeset import OwnerKey
from extractor.usecases.changes.config_keys import (
    MAIN,
    collect_keys,
    select_below_config,
    select_config,
    select_emitted_config,
)
from extractor.usecases.yaml_edits import (
    YamlEdit,
    find_edits,
    find_own_remarks,
    join_key,
    make_relative,
    rename_references,
    undo_edits,
)
from extractor.values.config_files import FOLDER
from extractor.values.configtree.settings import list_every_setting, map_packages
from extractor.values.configtree.yaml_text import Document, Entry, Key, UnsupportedYaml, Value, put
from extractor.values.setting_types import PATH as SHIPPED
from extractor.values.tree import Tree

_PLACE = attrgetter("file", "key")


@dataclass(frozen=True)
class MovedSetting:
    """An owner's setting with a new name or file.

    Attributes:
        key: Its name in the old release.
        new_key: Its name in the new one.
        value: Its value, as YAML in one line.
        file, new_file: Where it stood, and where it stands.
        referring: True where what changed is the names of other keys in its value.
    """

    key: str
    new_key: str
    value: str
    file: str
    new_file: str
    referring: bool = False


@dataclass(frozen=True)
class LostSetting:
    """An owner's setting that the new release lacks."""

    key: str
    value: str
    file: str


@dataclass(frozen=True)
class CarriedSettings:
    """Holds what becomes of the owner's settings.

    Attributes:
        ours: The owner's files without what was carried away, by path.
        theirs: The new files with what was carried there, by path.
        moved: The settings that were carried to another name or file.
        lost: Those that have no place; the files they stand in are not to be lost.
    """

    ours: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    theirs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    moved: tuple[MovedSetting, ...] = ()
    lost: tuple[LostSetting, ...] = ()


def carry(
    base: Mapping[str, bytes],
    ours: Mapping[str, bytes],
    new: Mapping[str, bytes],
    renamed: Callable[[str], str | None],
    free: AbstractSet[str],
) -> CarriedSettings:
    """Carry the owner's settings to where the new release has them.

    Args:
        base: The config files as they were emitted, by path in the project.
        ours: Those of them that the owner edited.
        new: The config files as they are emitted now.
        renamed: New names of keys; None for a key that keeps its name.
        free: Those of the new ones that an upgrade may write to.
    """
    carrier = _Carrier(base, new, renamed, free)
    for path in sorted(ours):
        carrier.carry_file(path, ours[path])
    moved = [
        item
        for item in carrier.moved.values()
        if item.referring or (item.key, item.file) != (item.new_key, item.new_file)
    ]
    return CarriedSettings(
        ours=carrier.ours,
        theirs={path: text.encode() for path, text in carrier.theirs.items()},
        moved=tuple(sorted(moved, key=_PLACE)),
        lost=tuple(sorted(carrier.lost, key=_PLACE)),
    )


def find_unread_keys(after: Mapping[str, str], new: Generated) -> list[OwnerKey]:
    """Return the owner's settings that nothing in the new project reads.

    Args:
        after: The config files after the upgrade, by path.
    """
    place, features = f"{new.options.package}/{SHIPPED}", new.options.features
    shipped = next((file.data.decode() for file in new.tree if file.path == place), "{}")
    schema = json.loads(shipped).get("schema", {})
    unread = {key for key, known in schema.items() if "unread" in known or known.get("needs") not in (None, *features)}
    unread |= {key for key, known in schema.items() if "values" in known and not known.get("is_compared")}
    read = {(item.key, item.value) for item in list_every_setting(select_config(new.tree), MAIN)}
    read |= {(key, str(value)) for key, known in schema.items() for value in ("null", *known.get("values", ()))}
    settings = dict.fromkeys(list_every_setting(select_below_config(after), MAIN))
    return [
        OwnerKey(f"{FOLDER}{item.file}", item.line, item.key, None, unread=True)
        for item in settings
        if item.key in unread and not (item.section or "${" in item.value or (item.key, item.value) in read)
    ]


@dataclass(frozen=True)
class _NewPlace:
    """Says where a setting goes."""

    key: str
    file: str
    path: Key


class _Carrier:
    def __init__(
        self,
        base: Mapping[str, bytes],
        new: Mapping[str, bytes],
        renamed: Callable[[str], str | None],
        free: AbstractSet[str],
    ) -> None:
        self._renamed = renamed
        self._base, self._new = _parse_documents(base), _parse_documents(new)
        texts = [{path: item.text for path, item in side.items()} for side in (self._base, self._new)]
        relative = [select_below_config(side) for side in texts]
        self._old_keys, self._new_keys = map(collect_keys, relative)
        self._old_packages, self._new_packages = (map_packages(side, MAIN) for side in relative)
        self._free = [path for path in sorted(self._new) if path in free]
        self.theirs: dict[str, str] = {}
        self.ours: dict[str, bytes] = {}
        self.moved: dict[tuple[str, Key], MovedSetting] = {}
        self.lost: list[LostSetting] = []

    def carry_file(self, path: str, data: bytes) -> None:
        """Carry what stands in one file of the owner's."""
        before = self._base.get(path)
        try:
            text = data.decode()
            crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
            mine = Document.of(text.replace("\r\n", "\n") if crlf else text)
        except (UnicodeDecodeError, UnsupportedYaml):
            return
        if before is None:
            return
        edits = list(find_edits(before, mine))
        # What has grown from one value goes as a whole or stays as a whole.
        staying = {edit.holder for edit in edits if edit.holder and "left" in self._decide_edit(path, edit)}
        undone: dict[Entry, str | None] = {}
        rewritten: dict[Entry, str] = {}
        for edit in edits:
            if edit.holder in staying or not self._carry_edit(path, before, mine, edit, rewritten):
                continue
            if edit.holder is not None:
                undone[edit.holder] = before.raw(before.entries[edit.holder.path])
            else:
                undone[edit.entry] = None if edit.was is None else before.raw(edit.was)
        result = undo_edits(mine, before, undone, rewritten)
        if result != mine.text:
            self.ours[path] = (result.replace("\n", "\r\n") if crlf else result).encode()

    def _carry_edit(
        self, file: str, before: Document, mine: Document, edit: YamlEdit, rewritten: dict[Entry, str]
    ) -> bool:
        """Carry one edit; return False if the merge handles it."""
        entry = edit.entry
        raw = rename_references(mine.raw(entry), self._rename_known)
        keys, decided = self._list_keys(file, entry.path), self._decide_edit(file, edit)
        home = next((item for item in decided if isinstance(item, _NewPlace)), None)
        if home is None:
            if "lost" in decided:
                self.lost.append(LostSetting(keys[0], entry.shown, file))
                return file in self._new
            if raw != mine.raw(entry) and edit.holder is None:
                rewritten[entry] = raw
                self.moved[(file, ("", *entry.path))] = MovedSetting(keys[0], keys[0], raw.strip(), file, file, True)
            return False
        comment = mine.comment(entry)
        if edit.was is not None and comment == before.comment(edit.was):
            raw, comment = f"{raw.rstrip().removesuffix(comment.strip()).rstrip(' ')}\n", ""
        remarks = tuple(line.strip() for line in find_own_remarks(mine, entry, before))
        value = Value(raw, entry.indent, comment, remarks)
        if not self._put(home, value, entry):
            self.lost.append(LostSetting(keys[0], entry.shown, file))
            return file in self._new
        place = (home.file, home.path)
        earlier = self.moved.get(place)
        if earlier is not None and earlier.value != entry.shown:
            self.lost.append(LostSetting(earlier.key, earlier.value, earlier.file))
        self.moved[place] = MovedSetting(keys[decided.index(home)], home.key, entry.shown, file, home.file)
        return True

    def _list_keys(self, file: str, path: Key) -> list[str]:
        return [join_key(package, path) for package in self._old_packages[file.removeprefix(FOLDER)]]

    def _decide_edit(self, file: str, edit: YamlEdit) -> list[_NewPlace | str]:
        return [self._find_new_place(key, file, edit) for key in self._list_keys(file, edit.entry.path)]

    def _find_new_place(self, key: str, file: str, edit: YamlEdit) -> _NewPlace | str:
        """Return a setting's new place, "lost", or "left" for the merge."""
        path, known = edit.entry.path, key in self._new_keys
        here = self._new.get(file)
        if known:
            there = here.entries.get(path) if here is not None and file in self._free else None
            if there is not None:
                # Where the release has another default now, its owner is to see that.
                same = edit.was is not None and edit.was.value == there.value
                return _NewPlace(key, file, path) if same else "left"
            if edit.was is None and here is not None:
                return "left"
            return self._find_home(key, file) or "lost"
        name = self._renamed(key)
        if name is not None and (name in self._new_keys or not (edit.was or key in self._old_keys)):
            return self._find_home(name, file) or "lost"
        if edit.was is not None or key in self._old_keys:
            return "lost"
        if here is not None and (not edit.within or edit.within in here.entries):
            return "left"
        return self._find_home(key, file) or "lost"

    def _find_home(self, key: str, file: str) -> _NewPlace | None:
        """Return a key's file: its former or an unconditional one.

        One that stands in several places of the config would set it in each of them.
        """
        others = [path for path in self._free if path != file and not self._is_option(path)]
        others = [path for path in others if len(self._new_packages[path.removeprefix(FOLDER)]) == 1]
        best: tuple[int, _NewPlace] | None = None
        for path in [file] * (file in self._free) + sorted(others, key=lambda item: item != f"{FOLDER}{MAIN}"):
            for package in self._new_packages[path.removeprefix(FOLDER)]:
                inside = make_relative(package, key)
                if inside is None:
                    continue
                entries = self._new[path].entries
                depth = next((end for end in range(len(inside), 0, -1) if inside[:end] in entries), 0)
                depth += len(package.split(".")) if package else 0
                if path == file and (self._is_option(path) or inside in entries):
                    return _NewPlace(key, path, inside)
                if best is None or depth > best[0]:
                    best = (depth, _NewPlace(key, path, inside))
        return best[1] if best is not None else None

    def _is_option(self, path: str) -> bool:
        """Tell whether a file is an option of a config group.

        A preset or a recipe counts too: it wins over others by its place in the list of defaults, which is kept.
        """
        folder = posixpath.dirname(path)
        is_chosen = sum(posixpath.dirname(other) == folder for other in self._new) > 1
        return folder != FOLDER.rstrip("/") and (is_chosen or "" in self._new_packages[path.removeprefix(FOLDER)])

    def _put(self, home: _NewPlace, value: Value, entry: Entry) -> bool:
        text = self.theirs.get(home.file, self._new[home.file].text)
        there = Document.of(text).entries.get(home.path)
        if there is not None and there.section:
            # What the owner has put between braces goes in key by key.
            changed: str | None = text if entry.inner or entry.value.endswith("()") else None
            for name, inner in entry.inner:
                changed = put(changed, (*home.path, name), Value(f" {inner}\n")) if changed is not None else None
        else:
            changed = put(text, home.path, value)
        if changed is None:
            return False
        self.theirs[home.file] = changed
        return True

    def _rename_known(self, key: str) -> str | None:
        """Return the new name of a key that is gone, if there is one."""
        name = None if key in self._new_keys else self._renamed(key)
        return name if name in self._new_keys else None


def _parse_documents(files: Mapping[str, bytes]) -> dict[str, Document]:
    documents = {}
    for path, data in files.items():
        with suppress(UnicodeDecodeError, UnsupportedYaml):
            documents[path] = Document.of(data.decode())
    return documents


def rename_own_settings(
    own: Mapping[str, bytes], base: Mapping[str, bytes], new: Tree, renamed: Callable[[str], str | None]
) -> tuple[dict[str, bytes], tuple[MovedSetting, ...]]:
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
    before = select_emitted_config(base)
    known = collect_keys(select_config(new))

    def name_of(key: str) -> str | None:
        """Return a key's new name, or None if unchanged or removed."""
        name = None if key in known else renamed(key)
        parts = name.split(".") if name is not None else []
        # What stands in a section that takes anything, `reward_kwargs`, is no key of the release.
        return name if any(".".join(parts[:end]) in known for end in range(len(parts), 0, -1)) else None

    documents = _parse_documents({path: data for path, data in sorted(own.items()) if b"\r" not in data})
    texts = {path: document.text for path, document in documents.items()}
    places = map_packages(select_below_config({**before, **texts}), MAIN)
    files: dict[str, bytes] = {}
    moved: list[MovedSetting] = []
    for path, text in texts.items():
        packages = places.get(path.removeprefix(FOLDER), ())
        changed, told = _rename(path, text, packages[0], name_of) if len(packages) == 1 else (text, [])
        files |= {path: changed.encode()} if changed != text else {}
        moved += told
    return files, tuple(moved)


def _rename(path: str, text: str, package: str, name_of: Callable[[str], str | None]) -> tuple[str, list[MovedSetting]]:
    # The leading comments belong to no setting.
    leading = takewhile(lambda line: not line.strip() or line.startswith("#"), text.split("\n"))
    head = Document.of("".join(f"{line}\n" for line in leading) + "_: 0\n")
    document, told = Document.of(text), list[MovedSetting]()
    places, taken = document.entries, dict[Key, str]()  # as they were; names that have a value by now
    for place in places:
        entry, key = document.entries.get(place), join_key(package, place)
        if entry is None or entry.section:
            continue
        name, raw = name_of(key), rename_references(document.raw(entry), name_of)
        inside = make_relative(package, name) if name is not None else None
        is_free = inside is not None and inside not in places and taken.get(inside, entry.value) == entry.value
        remarks = tuple(line.strip() for line in find_own_remarks(document, entry, head))
        written = put(document.text, inside, Value(raw, entry.indent, "", remarks)) if is_free and inside else None
        if written is not None and name is not None and inside is not None:
            document, taken[inside] = Document.of(written), entry.value
            document = Document.of(undo_edits(document, head, {document.entries[place]: None}, {}))
            told.append(MovedSetting(key, name, entry.shown, path, path))
        elif raw != document.raw(entry):
            document = Document.of(undo_edits(document, head, {}, {entry: raw}))
            told.append(MovedSetting(key, key, raw.strip(), path, path, referring=True))
    return document.text, told
