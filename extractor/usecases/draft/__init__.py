"""Try an earlier manifest on a release that has none.

`check` holds each key against the source; `fit` puts right what can be, then slices and rewrites with the result.
Nothing of upstream is executed.
"""

from collections.abc import Callable
from pathlib import Path

from extractor.pipeline.source import open_source
from extractor.usecases.draft.check import Finding, Kind
from extractor.usecases.draft.fit import ManifestFit, fit
from extractor.values import releases
from extractor.values.manifest import SourcePin

__all__ = ["Finding", "Kind", "ManifestFit", "attempt", "fit"]


def attempt(release: str, base: str, origin: Path | None, *, offline: bool, step: Callable[[str], None]) -> ManifestFit:
    """Hold a release against the manifest of another one.

    Args:
        base: The release whose manifest is tried.
        origin: Where the release comes from; None: the package index.

    Raises:
        SourceError: one of the two is not available.
    """
    step(f"reading verl {release} and {base}")
    is_pinned = origin is None and release in releases.list_supported()
    new = open_source(releases.load(release).pin if is_pinned else SourcePin(release, "", ""), origin, offline=offline)
    old = open_source(releases.load(base).pin, offline=offline)
    return fit(base, old, new, lambda what: step(f"trying the manifest of {base}: {what}"))
