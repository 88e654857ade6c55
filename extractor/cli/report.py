"""`vextract report`: make a page about runs."""

from pathlib import Path
from typing import Annotated

from extractor.cli import output
from extractor.cli.options import argument, option
from extractor.values.errors import UsageError


def command(
    runs: Annotated[
        list[Path] | None,
        argument("RUN", "A run's directory; without one, every run under checkpoints/."),
    ] = None,
    file: Annotated[
        Path | None,
        option("--output,-o FILE", "The page; by default report.html in the run's directory."),
    ] = None,
) -> None:
    """Make one HTML page about one or several runs.

    A RUN may also be metrics.N.jsonl, an earlier run in its directory. The page opens without a network.
    """
    from extractor.usecases.report.page import render
    from extractor.usecases.report.runs import find_runs, read_runs

    found = read_runs(runs or find_runs(Path("checkpoints")))
    for run in found:
        if not run.rows:
            output.note(f"note: {run.path} has no metrics yet")
    _write(file or (found[0].directory if len(found) == 1 else Path()) / "report.html", render(found))


def _write(path: Path, text: str) -> None:
    """Write a file in one go, and print its path."""
    from extractor.project import disk

    try:
        disk.replace(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="name a file in another place with --output"
        ) from error
    output.data(str(path))
