"""Describe a release that has no manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extractor.cli import output, screen

if TYPE_CHECKING:
    from extractor.usecases.draft import Finding, ManifestFit


def _finding_json(item: Finding) -> dict[str, object]:
    """Return one finding, as JSON's types."""
    suggestions = output.pick_all(item.suggestions, "place score why")
    return output.pick(item, "kind where subject problem moved", suggestions=suggestions)


def show_fit(found: ManifestFit, *, verbose: bool, json: bool) -> None:
    """Print how far the earlier manifest holds for a refused release."""
    items = (*found.findings, *found.left)
    if json:
        report = {"release": found.release, "manifest_of": found.base, "holds": found.holds}
        output.data_json({**report, "findings": [_finding_json(item) for item in items]})
        return
    said = f"{output.counted(len(items), 'part')} of it do not hold" if items else "all of it holds"
    lines = []
    for item in items:
        lines.append(f"  {item}")
        lines += [f"      {'taken' if near.place == item.moved else 'similar'}: {near}" for near in item.suggestions]
    head = f"verl {found.release}, tried with the manifest of {found.base}: {said}"
    screen.show([head], [screen.Section(lines)], verbose=verbose)


def show_left_out(found: ManifestFit, *, verbose: bool) -> None:
    """Say what an experimental project lacks."""
    lines = [f"  {item}" for item in (*found.findings, *found.left)]
    screen.show([], [screen.Section(lines)], verbose=verbose, aside=True)
