"""`vextract plan`: plan the memory of a run."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from extractor.cli.options import Json, Python


def command(
    arguments: Annotated[
        Optional[list[str]],  # noqa: UP045 - Typer evaluates it on Python 3.10 as well
        typer.Argument(metavar="[PATH] [KEY=VALUE]...", help="The project, then settings as main.py takes them."),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="How many processes train.")] = 1,
    memory: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--memory", metavar="GIB", help="Memory of each device; without it, of this machine's."),
    ] = None,
    config_name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--config-name", metavar="NAME", help="Start from another file of config/."),
    ] = None,
    python: Python = None,
    json: Json = False,
) -> int:
    """Plan the memory of a run, phase by phase, before anything is loaded.

    Where a run does not fit, it names settings with which it does; the exit code is then 1.
    """
    from extractor.usecases.in_project import run_in_project

    settings = list(arguments or [])
    path = Path(settings.pop(0)) if settings and "=" not in settings[0] else Path()
    flags = [f"--processes={processes}"]
    flags += [f"--memory={memory}"] if memory is not None else []
    flags += [f"--config-name={config_name}"] if config_name is not None else []
    flags += ["--json"] if json else []
    return run_in_project(path, "plan", [*flags, *settings], python)
