"""Describe a release of verl that has no manifest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from extractor.cli import output, screen

if TYPE_CHECKING:
    from extractor.usecases.draft import Finding, ManifestFit


@contextlib.contextmanager
def shown(*, verbose: bool, json: bool) -> Iterator[None]:
    """Print how far the earlier manifest holds for a refused release."""
    from extractor.usecases.new import NotSupported

    try:
        yield
    except NotSupported as error:
        if json:
            output.data_json(_report(error.found))
        else:
            _show(error.found, verbose)
        raise


def show_left_out(found: ManifestFit, *, verbose: bool) -> None:
    """Say what an experimental project lacks."""
    lines = [f"  {item}" for item in (*found.findings, *found.left)]
    screen.show([], [screen.Section(lines)], verbose=verbose, below=12, aside=True)


def _show(found: ManifestFit, verbose: bool) -> None:
    items = (*found.findings, *found.left)
    head = f"verl {found.release}, tried with the manifest of {found.base}"
    said = f"{len(items)} part{'' if len(items) == 1 else 's'} of it do not hold" if items else "all of it holds"
    lines = [line for item in items for line in _shown(item)]
    screen.show([f"{head}: {said}"], [screen.Section(lines)], verbose=verbose, below=4)


def _shown(item: Finding) -> list[str]:
    similar = [f"      {'taken' if found.place == item.moved else 'similar'}: {found}" for found in item.suggestions]
    return [f"  {item}", *similar]


def _report(found: ManifestFit) -> dict[str, object]:
    from extractor.cli.manifest import finding_json

    return {
        "release": found.release,
        "manifest_of": found.base,
        "holds": found.holds,
        "findings": [finding_json(item) for item in (*found.findings, *found.left)],
    }
