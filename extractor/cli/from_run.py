"""What `vextract new --from-verl-run` says of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extractor.cli import output, screen

if TYPE_CHECKING:
    from extractor.usecases.fromrun.carry_over import Settled


def report(settled: Settled) -> dict[str, object]:
    """Return the report as JSON's types."""
    found = settled.found
    return {
        "file": found.run.file,
        "verl": found.target.release,
        "settings": settled.settings,
        "remarks": [
            {"key": item.key, "value": item.value, "what": item.what, "why": item.why} for item in settled.remarks
        ],
        "notes": list(found.run.notes),
    }


def show(settled: Settled, *, verbose: bool, below: int) -> None:
    """Say what is not as it was in the run."""
    from extractor.usecases.fromrun.unknowns import readable

    found = settled.found
    for text in found.run.notes:
        output.warning(readable(text))
    sections = [
        screen.Section(
            [f"  {item.key}={item.value}: {item.why}" for item in settled.remarks if item.what == what], f"{what}:"
        )
        for what in ("to do", "unhandled", "not carried over", "changed", "lowered", "dropped")
    ]
    head = [f"{found.run.file}: written for verl {found.target.release}"]
    screen.show(head, sections, verbose=verbose, below=below, aside=True)
