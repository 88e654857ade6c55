"""Settings of a run under other names, wherever the run says them: its command, its configs, or a resolved config."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from extractor.importers.runs.run import Run
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values.configtree import Override, flatten
from extractor.values.configtree.compose import apply, merge


def flat_settings(run: Run) -> dict[str, Any]:
    """Return what a run, its configs and its checkout's config say, by key."""
    if run.resolved is not None:
        return dict(flatten(run.resolved))
    merged: dict[str, Any] = {}
    for body in (run.defaults, *run.overlay):
        merge(merged, body)
    return {**flatten(merged), **{item.key: item.value for item in run.overrides if item.mark != "~"}}


def renamed(run: Run, gone: Collection[str | None], found: Mapping[str, Any], remarks: Sequence[Remark]) -> Run:
    """Return a run without some settings and with others.

    Args:
        run: The run.
        gone: Names that it no longer has.
        found: Values by the names that it has instead.
        remarks: What a user should know of that.
    """
    remarks = (*run.remarks, *remarks)
    former = {**run.former, **{key: value for key, value in flat_settings(run).items() if key in gone}}
    if run.resolved is not None:
        resolved = without(run.resolved, gone)
        for key, value in found.items():
            apply(resolved, Override("++", key, value, ""))
        return replace(run, resolved=resolved, remarks=remarks, former=former)
    overrides = [item for item in run.overrides if item.key not in gone and item.key not in found]
    overrides += [Override("", key, value, f"{key}={value}") for key, value in found.items()]
    return replace(
        run,
        overrides=tuple(overrides),
        defaults=without(run.defaults, gone),
        overlay=tuple(without(body, gone) for body in run.overlay),
        remarks=remarks,
        former=former,
    )


def without(body: Mapping[str, Any], keys: Collection[str | None], prefix: str = "") -> Any:
    """Return a nested config without some keys, and without sections of which they were all."""
    found = {}
    for name, value in body.items():
        if f"{prefix}{name}" in keys:
            continue
        left = without(value, keys, f"{prefix}{name}.") if isinstance(value, dict) else value
        if left != {} or value == {}:
            found[name] = left
    return found
