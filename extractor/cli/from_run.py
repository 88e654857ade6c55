"""Read options about a run and print what was found."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from extractor.cli import output, screen
from extractor.cli.options import declare, make_parameter, option
from extractor.values.errors import UsageError

if TYPE_CHECKING:
    from extractor.importers.runs.imported_project import ImportedProject
    from extractor.importers.runs.run_request import RunRequest

_LONGEST = 120


_OPTIONS: dict[str, Any] = {
    "from_verl_run": Annotated[
        Path | None,
        option(
            "--from-verl-run FILE",
            "Take the experiment from a run of verl, EasyR1 or TRL: a launch script, overrides, a config, its"
            " log, what Hydra or a tracker wrote of it, or a checkpoint of verl to go on from.",
        ),
    ],
    "run_verl": Annotated[
        str | None, option("--run-verl RELEASE", "Release that the run is for; detected by default.")
    ],
    "variables": Annotated[
        list[str] | None,
        option(
            "--set VAR=VALUE",
            "A variable of the run's script, or its argument (1=VALUE); repeatable.",
        ),
    ],
    "config_dir": Annotated[
        list[Path] | None, option("--config-dir DIR", "Directory of configs that the run names; repeatable.")
    ],
    "started_in": Annotated[
        Path | None,
        option(
            "--cwd DIR",
            "Directory that the run is started in; by default the one below which the paths that it names exist.",
        ),
    ],
    "keep_unknown": Annotated[
        bool, option("--keep-unknown", "Put settings of the run that no release has into a file of their own.")
    ],
}


def takes_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a run in place of its parameter `run`."""

    def with_run(**given: Any) -> Any:
        said = {name: given.pop(name) for name in _OPTIONS}
        return command(**given, run=_request(given["offline"], **said))

    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        of_run = [make_parameter(*item, None if item[0] != "keep_unknown" else False) for item in _OPTIONS.items()]
        shown += of_run if name == "run" else [parameter]
    return declare(command, with_run, shown)


def _request(offline: bool, *, from_verl_run: Path | None, run_verl: str | None, **said: Any) -> "RunRequest | None":
    """Return what the command line says of a run, or None.

    Raises:
        UsageError: it names none, and says something about it; or a directory that is not there.
    """
    if from_verl_run is None:
        if run_verl or any(said.values()):
            raise UsageError(
                "--set, --config-dir, --cwd, --keep-unknown and --run-verl belong to a run",
                hint="pass --from-verl-run FILE as well",
            )
        return None
    variables, folders, started_in = said["variables"] or (), said["config_dir"] or (), said["started_in"]
    for flag, folder in [("--cwd", started_in), *(("--config-dir", item) for item in folders)]:
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{flag} {folder}: no such directory", hint="check its path")
    from extractor.importers.runs.run_request import RunRequest

    return RunRequest(
        from_verl_run, tuple(variables), tuple(folders), run_verl, started_in, offline, said["keep_unknown"]
    )


def describe(settled: "ImportedProject") -> screen.Answer:
    """Say what is not as it was in the run."""
    from extractor.importers.runs.placeholders import make_readable
    from extractor.importers.runs.report import FILE, FIRST, KEPT, TITLES

    lines: dict[str, list[str]] = {what: [] for what in TITLES}
    for item in settled.remarks:
        said = " ".join(make_readable(str(item.value)).split())
        said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."
        if item.what in lines:
            lines[item.what].append(f"  {item.key}{f'={said}' if item.value != '' else ''}: {item.why}")
    rest = sum(item.what not in FIRST for item in settled.remarks)
    data = {
        "file": settled.run.file,
        "verl": settled.release,
        "settings": settled.settings,
        "remarks": output.pick_all((item for item in settled.remarks if item.what != KEPT), "key value what why"),
        "kept": {item.key: item.value for item in settled.remarks if item.what == KEPT},
        "notes": settled.run.notes,
    }
    return screen.Answer(
        data,
        [make_readable(settled.headline)],
        [screen.Section(told, f"{TITLES[what]}:", rest=what not in FIRST) for what, told in lines.items()],
        more=[f"{rest} more, lowered, of no use here, or as the project has them: {FILE}"] if rest else [],
        warnings=list(map(make_readable, settled.run.notes)),
    )
