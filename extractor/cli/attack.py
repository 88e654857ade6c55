"""`vextract attack`: try known hacks against a reward."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from extractor.cli.options import Project, Python


def command(
    path: Project = Path(),
    reward: Annotated[
        Optional[str],  # noqa: UP045 - Typer evaluates it on Python 3.10 as well
        typer.Option(
            "--reward", metavar="NAME", help="FILE.py:FUNCTION, MODULE:FUNCTION or code; the reward hook by default."
        ),
    ] = None,
    data: Annotated[
        Optional[Path],  # noqa: UP045
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
    from extractor.usecases.in_project import run_in_project

    asked = [f"--tasks={tasks}"]
    asked += [f"--reward={reward}"] if reward is not None else []
    asked += [f"--data={data}"] if data is not None else []
    asked += ["--harm"] if harm else []
    asked += ["--all"] if all_ else []
    return run_in_project(path, "attack", asked, python)
