"""Infer a manifest for a release from that of an earlier one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from extractor.pipeline.source import Source
from extractor.usecases.draft.amend import amend
from extractor.usecases.draft.check import check
from extractor.usecases.draft.findings import Finding, Note
from extractor.usecases.draft.trial import trial
from extractor.values import releases
from extractor.values.manifest import Manifest, parse_manifest

NO_DIGEST = "0" * 64


@dataclass(frozen=True)
class ManifestFit:
    """Says how far a manifest holds for another release.

    Attributes:
        base: The release whose manifest it is.
        release: The other release.
        before: The manifest in full, as TOML gives it.
        data: The same with what does not hold put right or taken out, for the other release.
        findings: What does not hold.
        notes: What was done about it.
        left: What still cannot be followed or rewritten with the amended manifest.
        manifest: The amended manifest.
    """

    base: str
    release: str
    before: dict[str, Any] = field(repr=False)
    data: dict[str, Any] = field(repr=False)
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...]
    left: tuple[Finding, ...]
    manifest: Manifest = field(repr=False)

    @property
    def holds(self) -> bool:
        """Return True where the manifest holds as it is."""
        return not self.findings and not self.left


def fit(base: str, old: Source, new: Source, filename: str | None, progress: Callable[[str], None]) -> ManifestFit:
    """Hold a release against an earlier one's manifest.

    Args:
        base: The release whose manifest is tried.
        old: Its source.
        new: The source of the other release.
        filename: The name of the wheel or sdist; None for a directory.
        progress: Told what is going on.
    """
    before = releases.stated_in_full(base)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        progress("roots, replacements and fixes")
        findings = check(releases.load(base), old, new)
        data, notes = amend(before, findings)
        data["release"] = new.release
        data["source"] = _source(new, filename)
        for key in ("renamed_keys", "follows"):
            data.pop(key, None)
        manifest = replace(
            parse_manifest(data, f"verl-{new.release}.toml (inferred)"),
            borrowed_from=base,
            former_keys=releases.load(base).former_keys,
        )
        left = trial(manifest, new, progress)
    return ManifestFit(base, new.release, before, data, findings, tuple(notes), left, manifest)


def _source(source: Source, filename: str | None) -> dict[str, str]:
    wheel = f"verl-{source.release}-py3-none-any.whl"
    if source.kind == "wheel":
        return {"wheel": filename or wheel, "wheel_sha256": source.sha256}
    stated = {"wheel": wheel, "wheel_sha256": NO_DIGEST}
    if source.kind == "sdist":
        stated |= {"sdist": filename or f"verl-{source.release}.tar.gz", "sdist_sha256": source.sha256}
    return stated
