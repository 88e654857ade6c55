"""Write a draft manifest, with a remark on everything that a person must decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from extractor.pipeline import generate
from extractor.pipeline.source import Source
from extractor.usecases.changes.config_keys import upstream_config
from extractor.usecases.draft.config_fields import drop_lost_fields
from extractor.usecases.draft.findings import Note
from extractor.usecases.draft.fit import NO_DIGEST, ManifestFit, list_choices
from extractor.usecases.verify.closed_imports import import_problems
from extractor.values import releases
from extractor.values.errors import UsageError, VextractError
from extractor.values.manifest import difference, read_toml
from extractor.values.manifest.write import write_manifest

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
    """

    release: str
    follows: str
    text: str
    stated: Mapping[str, Any]
    notes: tuple[Note, ...]

    @property
    def todo(self) -> tuple[Note, ...]:
        """Return the remarks on which a person must decide."""
        return tuple(note for note in self.notes if note.todo)


def find_predecessor(release: str, after: str | None) -> str:
    """Return the release whose manifest another one's is drafted from: the one that is named, or the newest before it.

    Raises:
        UsageError: there is none, or the one named is not before it.
    """
    known = releases.supported()
    try:
        wanted = Version(release)
    except InvalidVersion:
        raise UsageError(f"{release!r} is no release number", hint="write it as in 0.9.1") from None
    before = [item for item in known if Version(item) < wanted]
    if after is not None and after not in before:
        raise UsageError(f"--after {after}: no supported release before {release}", hint=", ".join(known))
    if not before:
        raise UsageError(f"verl {release} is older than all that this vextract knows", hint=f"the oldest is {known[0]}")
    return after or before[-1]


def list_problems(found: ManifestFit) -> tuple[str, ...]:
    """Return what is wrong with projects made from what holds: the plainest one, and one with all features."""
    problems: dict[str, None] = {}
    for options in list_choices(found.manifest)[:2] if not found.left else ():
        try:
            made, lost = drop_lost_fields(generate.generate(options, found.new, found.manifest), found.old, found.new)
        except VextractError as error:
            problems[f"a project cannot be made: {error.message}"] = None
            continue
        problems.update(dict.fromkeys((*map(str, lost), *import_problems(made.tree, options, found.new))))
    return tuple(problems)


def draft(found: ManifestFit, problems: tuple[str, ...] = ()) -> Draft:
    """Write the manifest.

    Args:
        found: What holds of the one that it follows.
        problems: What is wrong with a project made from the inferred manifest, a line each.
    """
    data = dict(found.data)
    notes = list(found.notes)
    if found.old.requires != found.new.requires:
        notes.append(Note("requirements", "upstream now requires other packages or versions: do the bounds still fit?"))
    if data["source"]["wheel_sha256"] == NO_DIGEST:
        notes.append(Note("source", "the wheel's name and sha256 on the package index (`pip download --no-deps verl`)"))
    if keys := infer_renamed_keys(found.old, found.new):
        data["renamed_keys"] = keys
        notes.append(Note("renamed_keys", "inferred from upstream's config trees. Do these keys mean the same?"))
    stated = {"schema": found.before["schema"], "release": found.release, "follows": found.base}
    stated.update(_prune(difference({**found.before, "release": found.base}, data)))
    ordered = {key: stated[key] for key in sorted(stated, key=_place)}
    opened = [f"{item.where}: {item.subject} {item.problem}".removeprefix(": ") for item in found.left]
    notes = [*dict.fromkeys(notes), *(Note("", text) for text in (*opened, *problems))]
    remarks: dict[str, list[str]] = {}
    for note in notes:
        remarks.setdefault(note.where, []).append(str(note))
    title = f"What vextract knows about verl {found.release}."
    if any(note.todo for note in notes):
        title = f"{title} A draft, inferred from the manifest of {found.base}: decide each TODO and take it out."
    text = write_manifest(ordered, title, remarks)
    return Draft(found.release, found.base, text, read_toml(text, "draft"), tuple(notes))


def infer_renamed_keys(old: Source, new: Source) -> dict[str, str]:
    """Return old key -> new key, as upstream's config trees tell.

    A key that is gone is taken for the only one that came and ends in the same two names, or that has its last name and
    its value and lies in the same two sections, or for a key of two names in any.
    """
    before, after = ({key: value for key, value in upstream_config(source).items() if value} for source in (old, new))
    lost, came = before.keys() - after, after.keys() - before
    found: dict[str, str] = {}
    for key in lost:
        ours = key.split(".")
        ends = [place for place in came if len(ours) > 1 and place.split(".")[-2:] == ours[-2:]]
        near = [
            place
            for place in came
            if place.split(".")[-1:] == ours[-1:]
            and (len(ours) == 2 or place.split(".")[:2] == ours[:2])
            and after[place] == before[key]
        ]
        for places in (ends, near):
            if key not in found and len(places) == 1:
                found[key] = places[0]
    # Two keys cannot become one.
    counts = Counter(found.values())
    return {key: place for key, place in sorted(found.items()) if counts[place] == 1 and "._" not in key}


def _place(key: str) -> int:
    return _FIRST.index(key) if key in _FIRST else len(_FIRST) + (key == "drop")


def _prune(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements without tables and arrays of tables that state nothing."""
    found = {key: _prune(value) if isinstance(value, Mapping) else value for key, value in stated.items()}
    return {
        key: value
        for key, value in found.items()
        if value != {} and not (key in ("replacements", "fixes") and not value)
    }
