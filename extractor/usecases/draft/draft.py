"""Write a draft manifest, with a remark on everything that a person must decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extractor.pipeline.source import Source
from extractor.usecases.draft.findings import Finding, Note
from extractor.usecases.draft.fit import NO_DIGEST, ManifestFit
from extractor.usecases.draft.keys import renamed
from extractor.usecases.draft.needs import changed_requirements
from extractor.usecases.draft.offers import new_offers
from extractor.values.manifest import difference, read_toml
from extractor.values.manifest.write import write_manifest
from extractor.values.releases import load

_FIRST = ("schema", "release", "follows", "engines", "algorithms", "source")


@dataclass(frozen=True)
class Draft:
    """A drafted manifest.

    Attributes:
        release: For this release.
        follows: The release whose manifest it follows.
        text: The manifest, as TOML with comments.
        stated: The same as TOML gives it.
        notes: The remarks in it, in its order.
        open: Those remarks that say what does not work yet: code that cannot be followed or rewritten, imports of
            templates that lead nowhere.
    """

    release: str
    follows: str
    text: str
    stated: Mapping[str, Any]
    notes: tuple[Note, ...]
    open: tuple[str, ...]

    @property
    def todo(self) -> tuple[Note, ...]:
        """Return the remarks on which a person must decide."""
        return tuple(note for note in self.notes if note.todo)

    @property
    def done(self) -> bool:
        """Return True where nothing is left to decide."""
        return not self.todo


def draft(found: ManifestFit, old: Source, new: Source, problems: tuple[str, ...] = ()) -> Draft:
    """Write the manifest.

    Args:
        found: What holds of the one that it follows.
        old, new: The two releases.
        problems: What is wrong with a project made from the inferred manifest, a line each.
    """
    data = dict(found.data)
    notes = [*found.notes, *new_offers(load(found.base), old, new)]
    data["requirements"] = {**data["requirements"], "base": list(data["requirements"]["base"])}
    notes += changed_requirements(data, old, new)
    if data["source"]["wheel_sha256"] == NO_DIGEST:
        notes.append(Note("source", "the wheel's name and sha256 on the package index (`pip download --no-deps verl`)"))
    keys = renamed(old, new)
    if keys:
        data["renamed_keys"] = keys
        notes.append(Note("renamed_keys", "inferred from upstream's config trees. Do these keys mean the same?"))
    before = {**found.before, "release": found.base}
    stated = {"schema": found.before["schema"], "release": found.release, "follows": found.base}
    stated.update(_pruned(difference(before, data)))
    ordered = {key: stated[key] for key in sorted(stated, key=_place)}
    opened = (*map(_open, found.left), *problems)
    notes = list(dict.fromkeys(notes))
    notes += [Note("", text) for text in opened]
    text = write_manifest(ordered, _first_line(found, notes), _remarks(notes))
    return Draft(found.release, found.base, text, read_toml(text, "draft"), tuple(notes), opened)


def _first_line(found: ManifestFit, notes: list[Note]) -> str:
    title = f"What vextract knows about verl {found.release}."
    if any(note.todo for note in notes):
        return f"{title} A draft, inferred from the manifest of {found.base}: decide each TODO and take it out."
    return title


def _place(key: str) -> int:
    return _FIRST.index(key) if key in _FIRST else len(_FIRST) + (key == "drop")


def _pruned(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Without tables and arrays of tables that state nothing."""
    result = {}
    for key, value in stated.items():
        kept = _pruned(value) if isinstance(value, Mapping) else value
        if isinstance(value, Mapping) and not kept:
            continue
        if key in ("replacements", "fixes") and value == []:
            continue
        result[key] = kept
    return result


def _remarks(notes: list[Note]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for note in notes:
        found.setdefault(note.where, []).append(str(note))
    return found


def _open(item: Finding) -> str:
    similar = f"; of the same name: {', '.join(found.place for found in item.suggestions)}" if item.suggestions else ""
    return f"{item.where}: {item.subject} {item.problem}{similar}" if item.where else f"{item.subject} {item.problem}"
