"""`vextract report`, `plan` and `attack`: about runs."""

import os
import subprocess
from pathlib import Path
from typing import Annotated

from extractor.cli import output
from extractor.cli.options import Json, Project, Python, argument, option
from extractor.values.errors import UsageError


def report(
    runs: Annotated[list[Path] | None, argument("RUN", "A run's directory; else all under checkpoints/.")] = None,
    file: Annotated[Path | None, option("--output,-o FILE", "The page; by default the run's report.html.")] = None,
) -> None:
    """Make one HTML page about one or several runs.

    A RUN may also be metrics.N.jsonl, an earlier run in its directory. The page opens without a network.
    """
    from extractor.usecases.report.page import render
    from extractor.usecases.report.runs import find_runs, read_runs

    recorded = read_runs(runs or find_runs(Path("checkpoints")))
    for run in recorded:
        if not run.rows:
            output.print_note(f"note: {run.path} has no metrics yet")
    page = file or (recorded[0].directory if len(recorded) == 1 else Path()) / "report.html"
    output.write_file(page, render(recorded))
    output.print_data(str(page))


# The exit code of `in_project.py` where a project lacks what the command needs of it.
OTHER_VERSION = 70


def plan(
    arguments: Annotated[
        list[str] | None, argument("[PATH] [KEY=VALUE]...", "The project, then settings as main.py takes them.")
    ] = None,
    processes: Annotated[int, option("--processes", "How many processes train.", min=1)] = 1,
    memory: Annotated[float | None, option("--memory GIB", "Memory of each device; by default this one's.")] = None,
    config_name: Annotated[str | None, option("--config-name NAME", "Start from another file of config/.")] = None,
    python: Python = None,
    json: Json = False,
) -> int:
    """Plan the memory of a run, phase by phase, before anything is loaded.

    Where a run does not fit, it names settings with which it does; the exit code is then 1.
    """
    settings = list(arguments or [])
    path = Path(settings.pop(0)) if settings and "=" not in settings[0] else Path()
    return _run(path, "plan", python, settings, processes=processes, memory=memory, config_name=config_name, json=json)


def attack(
    path: Project = Path(),
    reward: Annotated[str | None, option("--reward NAME", "FILE.py:FUNCTION, MODULE:FUNCTION or code.")] = None,
    data: Annotated[Path | None, option("--data FILE", "Parquet or JSON lines of prompts with ground truth.")] = None,
    tasks: Annotated[int, option("--tasks", "How many rows of it to try.", min=1)] = 3,
    harm: Annotated[bool, option("--harm", "Also try programs that kill and fill memory outside the sandbox.")] = False,
    all_: Annotated[bool, option("--all", "Print every attempt, not only what got through.")] = False,
    python: Python = None,
) -> int:
    """Try known hacks against a project's reward, and print what got through.

    What gets through is what a policy will find. The exit code is then 1.
    """
    return _run(path, "attack", python, [], tasks=tasks, reward=reward, data=data, harm=harm, all=all_)


def _run(path: Path, name: str, python: str | None, settings: list[str], **flags: object) -> int:
    """Run `templates/command/NAME` with the project's Python; return its exit code.

    Args:
        path: The project, or a directory in it.
        name: Name of the folder.
        python: Interpreter that has the project's requirements; None: the project's own environment, or this one.
        settings: Arguments of the command.
        flags: Its options; those that are None or False are left out.

    Raises:
        CheckFailed: no Python has the project's requirements.
        UsageError: the project was made by another vextract, whose code this command cannot use.
    """
    from extractor.project import location, lock
    from extractor.usecases.verify import interpreter
    from extractor.values import resources

    given = {
        f"--{flag.replace('_', '-')}": value
        for flag, value in flags.items()
        if value is not None and value is not False
    }
    line = [flag if value is True else f"{flag}={value}" for flag, value in given.items()]
    root = location.find(path).resolve()
    chosen, package = interpreter.choose(root, python), lock.read(root).options.package
    script = resources.find_templates() / "command/in_project.py"
    command = [chosen, str(script), str(root), package, name, *line, *settings]
    done = subprocess.run(command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    if done.returncode == OTHER_VERSION:
        raise UsageError(
            f"`vextract {name}` does not fit this project, which another vextract has made",
            hint="`vextract upgrade` brings the project up to date; its traceback stands above",
        )
    return done.returncode
