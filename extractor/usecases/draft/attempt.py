"""Try a release with the manifest of the one before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import InvalidVersion, Version

from extractor.pipeline import generate
from extractor.pipeline.source import Source, open_source, open_unpinned
from extractor.usecases.draft.fit import ManifestFit, fit
from extractor.usecases.draft.trial import choices
from extractor.usecases.verify.unwritten import import_problems
from extractor.values import releases
from extractor.values.errors import UsageError, VextractError


@dataclass(frozen=True)
class Attempt:
    """Holds what came of an attempt.

    Attributes:
        fit: How far the manifest holds.
        old: The source of the manifest's release.
        new: The source of the other one.
    """

    fit: ManifestFit
    old: Source = field(repr=False)
    new: Source = field(repr=False)


def attempt(release: str, base: str, origin: Path | None, *, offline: bool, step: Callable[[str], None]) -> Attempt:
    """Hold a release against the manifest of another one.

    Args:
        release: The release.
        base: The release whose manifest is tried.
        origin: Where the release comes from; None: the package index.
        offline: Never download.
        step: Told what is going on.

    Raises:
        SourceError: one of the two is not available.
    """
    step(f"reading verl {release} and {base}")
    if origin is None and release in releases.supported():
        pin = releases.load(release).pin
        new, filename = open_source(pin, offline=offline), pin.wheel_filename
    else:
        opened = open_unpinned(release, origin, offline=offline)
        new, filename = opened.source, opened.filename or ""
    old = open_source(releases.load(base).pin, offline=offline)
    found = fit(base, old, new, filename or None, lambda what: step(f"trying the manifest of {base}: {what}"))
    return Attempt(found, old, new)


def follows(release: str, after: str | None) -> str:
    """Return the release whose manifest another one's is drafted from: the one that is named, or the newest before it.

    Raises:
        UsageError: there is none, or the one named is not before it.
    """
    known = releases.supported()
    try:
        wanted = Version(release)
    except InvalidVersion:
        raise UsageError(f"{release!r} is no release number", hint="write it as in 0.9.1") from None
    if after is not None:
        if after not in known or Version(after) >= wanted:
            raise UsageError(f"--after {after}: no supported release before {release}", hint=", ".join(known))
        return after
    before = [item for item in known if Version(item) < wanted]
    if not before:
        raise UsageError(f"verl {release} is older than all that this vextract knows", hint=f"the oldest is {known[0]}")
    return before[-1]


def project_problems(found: ManifestFit, source: Source) -> tuple[str, ...]:
    """Return what is wrong with projects made from what holds: the plainest one, and one with all features."""
    problems: dict[str, None] = {}
    if found.left:
        return ()
    for options in choices(found.manifest)[:2]:
        try:
            tree = generate.generate(options, source, found.manifest).tree
        except VextractError as error:
            problems[f"a project cannot be made: {error.message}"] = None
            continue
        problems.update(dict.fromkeys(import_problems(tree, options, source)))
    return tuple(problems)
