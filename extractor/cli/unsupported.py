"""Describe a release of verl that has no manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extractor.cli import output, screen

if TYPE_CHECKING:
    from extractor.usecases.draft import ManifestFit


def show_fit(found: ManifestFit, *, verbose: bool, json: bool) -> None:
    """Print how far the earlier manifest holds for a refused release."""
    items = (*found.findings, *found.left)
    if json:
        from extractor.cli.manifest import finding_json

        report = {"release": found.release, "manifest_of": found.base, "holds": found.holds}
        output.data_json({**report, "findings": [finding_json(item) for item in items]})
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
