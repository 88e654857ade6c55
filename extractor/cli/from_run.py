"""Read options about a run and print what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extractor.cli import output, screen
from extractor.values.errors import UsageError

if TYPE_CHECKING:
    from extractor.importers.runs.carry_over import RunRequest
    from extractor.importers.runs.imported_project import ImportedProject

_LONGEST = 120


def request(
    file: Path | None,
    variables: list[str] | None,
    config_dirs: list[Path] | None,
    run_verl: str | None,
    started_in: Path | None,
    offline: bool,
    keep_unknown: bool,
) -> RunRequest | None:
    """Return what the command line says of a run, or None.

    Raises:
        UsageError: it names none, and says something about it; or a directory that is not there.
    """
    if file is None:
        if any((variables, config_dirs, run_verl, started_in, keep_unknown)):
            raise UsageError(
                "--set, --config-dir, --cwd, --keep-unknown and --run-verl belong to a run",
                hint="pass --from-verl-run FILE as well",
            )
        return None
    for flag, folder in [("--cwd", started_in), *(("--config-dir", item) for item in config_dirs or ())]:
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{flag} {folder}: no such directory", hint="check its path")
    from extractor.importers.runs.carry_over import RunRequest

    return RunRequest(
        file, tuple(variables or ()), tuple(config_dirs or ()), run_verl, started_in, offline, keep_unknown
    )


def report(settled: ImportedProject) -> dict[str, object]:
    """Return the report as JSON's types."""
    from extractor.importers.runs.unsupported_keys import KEPT

    return {
        "file": settled.run.file,
        "verl": settled.release,
        "settings": settled.settings,
        "remarks": output.pick_all((item for item in settled.remarks if item.what != KEPT), "key value what why"),
        "kept": {item.key: item.value for item in settled.remarks if item.what == KEPT},
        "notes": settled.run.notes,
    }


def show(settled: ImportedProject, *, verbose: bool) -> None:
    """Say what is not as it was in the run."""
    from extractor.importers.runs.placeholders import make_readable
    from extractor.importers.runs.report import FILE, FIRST, TITLES

    for text in settled.run.notes:
        output.warning(make_readable(text))
    lines: dict[str, list[str]] = {what: [] for what in TITLES if verbose or what in FIRST}
    for item in settled.remarks:
        said = " ".join(make_readable(str(item.value)).split())
        said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."
        if item.what in lines:
            lines[item.what].append(f"  {item.key}{f'={said}' if item.value != '' else ''}: {item.why}")
    rest = sum(item.what not in FIRST for item in settled.remarks)
    tail = [f"{rest} more, lowered, of no use here, or as the project has them: {FILE}"]
    screen.show(
        [make_readable(settled.headline)],
        [screen.Section(told, f"{TITLES[what]}:") for what, told in lines.items()],
        [] if verbose or not rest else tail,
        verbose=verbose,
        aside=True,
    )
