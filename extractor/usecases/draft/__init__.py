"""Try an earlier manifest on a release that has none.

`check` holds each key against the source; `fit` puts right or takes out what does not hold.
Nothing of upstream is executed.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from extractor.pipeline.source import Source, open_source
from extractor.usecases.draft.check import Finding, Kind, check
from extractor.values import releases
from extractor.values.manifest import Manifest, SourcePin, parse_manifest
from extractor.values.options import Options

__all__ = ["Finding", "Kind", "ManifestFit", "attempt", "fit"]

NO_DIGEST = "0" * 64
OF_FIXES = (Kind.FIX_MODULE, Kind.FIX_EDIT, Kind.FIX_SWAP)
_Data = dict[str, Any]


@dataclass(frozen=True)
class ManifestFit:
    """Says how far a manifest holds for another release.

    Attributes:
        base: The release whose manifest it is.
        old: Its source.
        new: The source of the other release.
        before: The manifest in full, as TOML gives it.
        data: The same with what does not hold put right or taken out, for the other release.
        findings: What does not hold.
        manifest: The amended manifest.
    """

    base: str
    old: Source = field(repr=False)
    new: Source = field(repr=False)
    before: _Data = field(repr=False)
    data: _Data = field(repr=False)
    findings: tuple[Finding, ...]
    manifest: Manifest = field(repr=False)


def attempt(
    release: str, base: str, origin: Path | None, *, offline: bool, step: Callable[[str], None] = lambda text: None
) -> ManifestFit:
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
    step(f"trying the manifest of {base}")
    return fit(base, old, new)


def fit(base: str, old: Source, new: Source) -> ManifestFit:
    """Hold a release against an earlier one's manifest.

    Args:
        base: The release whose manifest is tried.
        new: The source of the other release.
    """
    before = releases.merge_predecessors(base)
    findings = check(releases.load(base), old, new)
    data = amend(before, findings)
    data["release"] = new.release
    wheel = {"wheel": f"verl-{new.release}-py3-none-any.whl", "wheel_sha256": NO_DIGEST}
    data["source"] = {"wheel": new.filename, "wheel_sha256": new.sha256} if new.kind == "wheel" else wheel
    for key in ("renamed_keys", "follows"):
        data.pop(key, None)
    manifest = replace(
        parse_manifest(data, f"verl-{new.release}.toml (inferred)"),
        borrowed_from=base,
        former_keys=releases.load(base).former_keys,
    )
    return ManifestFit(base, old, new, before, data, findings, manifest)


def list_choices(manifest: Manifest) -> list[Options]:
    """Return options for each engine: with no features and with all."""
    choices = []
    for engine in manifest.engines:
        every = sorted(item.name for item in manifest.features if not item.engines or engine in item.engines)
        choices += [Options("trial", manifest.release, engine, features=names) for names in ((), tuple(every))]
    return choices


def amend(data: _Data, findings: Iterable[Finding]) -> _Data:
    """Return a manifest with reported entries corrected where possible, else removed.

    Args:
        data: The manifest in full, as TOML gives it.
        findings: What of it does not hold.
    """
    data, fixes = copy.deepcopy(data), dict[str, list[Finding]]()
    for item in findings:
        table, _, name = item.where.partition(".")
        if item.kind in OF_FIXES:
            fixes.setdefault(name, []).append(item)
        elif item.kind is not Kind.SIGNATURE:
            holder, key = (data[table], name) if table in ("roles", "features") else (data, table)
            holder[key] = _move(holder[key], item.subject, item.moved)
    for fix_id, items in fixes.items():
        _amend_fix(data, fix_id, items)
    data["roles"] = {name: role for name, role in data["roles"].items() if role.get("symbols") or role.get("modules")}
    return data


def _move(value: Any, old: str, new: str | None) -> Any:
    """Return a part of a manifest with another name for a thing, or without it."""
    if isinstance(value, list):
        parts = [_move(part, old, new) for part in value]
        return [part for number, part in enumerate(parts) if part is not None and part not in parts[:number]]
    if not isinstance(value, dict):
        return new if value == old else value
    if value.get("symbol") == old and new is None:
        return None  # an entry of `[[replacements]]`
    named = {new if key == old else key: _move(part, old, new) for key, part in value.items() if key != old or new}
    return {key: part for key, part in named.items() if part != [] or key == "symbols"}


def _amend_fix(data: _Data, fix_id: str, items: list[Finding]) -> None:
    """Correct a fix, or remove it if nothing of it applies."""
    fix = next(stated for stated in data["fixes"] if stated["id"] == fix_id)
    dropped = [item.edit for item in items if item.kind is Kind.FIX_EDIT and item.count == 0]
    for item in items:
        if item.kind is Kind.FIX_SWAP:
            fix["replaced"] = _move(fix["replaced"], item.subject, item.moved)
        elif item.kind is Kind.FIX_MODULE:
            fix["module"] = item.moved
        elif item.count:
            fix["edits"][item.edit]["count"] = item.count
    fix["edits"] = [edit for number, edit in enumerate(fix.get("edits", ())) if number not in dropped]
    for key in ("edits", "replaced"):
        if not fix.get(key):
            fix.pop(key, None)
    if not fix["module"] or not ("edits" in fix or "replaced" in fix):
        data["fixes"].remove(fix)
