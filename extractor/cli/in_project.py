"""`vextract plan` and `vextract attack`: run by a project's Python."""

import os
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from extractor.cli.options import Json, Project, Python

# The exit code of `in_project.py` where a project lacks what the command needs of it.
OTHER_VERSION = 70


def plan(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH] [KEY=VALUE]...", help="The project, then settings as main.py takes them."),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="How many processes train.")] = 1,
    memory: Annotated[
        float | None,
        typer.Option("--memory", metavar="GIB", help="Memory of each device; without it, of this machine's."),
    ] = None,
    config_name: Annotated[
        str | None, typer.Option("--config-name", metavar="NAME", help="Start from another file of config/.")
    ] = None,
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
    reward: Annotated[
        str | None,
        typer.Option(
            "--reward", metavar="NAME", help="FILE.py:FUNCTION, MODULE:FUNCTION or code; the reward hook by default."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", help="Parquet or JSON lines of prompts with their ground truth."),
    ] = None,
    tasks: Annotated[int, typer.Option("--tasks", min=1, help="How many rows of it to try.")] = 3,
    harm: Annotated[
        bool, typer.Option("--harm", help="Also try programs that kill and fill memory outside the sandbox.")
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Print every attempt, not only what got through.")] = False,
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
    from extractor.values.errors import UsageError

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
