"""Run a command's code in a project, by the project's own Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from extractor.project import location, lock
from extractor.usecases.verify import interpreter
from extractor.values import resources
from extractor.values.errors import UsageError

FOLDER = "command"
# The exit code of `in_project.py` where a project lacks what the command needs of it.
OTHER_VERSION = 70


def run_in_project(path: Path, command: str, arguments: Sequence[str], python: str | None = None) -> int:
    """Run `templates/command/COMMAND` as part of a project's package.

    Args:
        path: The project, or a directory in it.
        command: Name of the folder.
        arguments: Of the command.
        python: Interpreter that has the project's requirements; None: the project's own environment, or this one.

    Returns:
        The command's exit code.

    Raises:
        CheckFailed: no Python has the project's requirements.
        UsageError: the project was made by another vextract, whose code this command cannot use.
    """
    root = location.find(path).resolve()
    options = lock.read(root).options
    chosen = interpreter.choose(root, python)
    script = resources.templates() / FOLDER / "in_project.py"
    line = [chosen, str(script), str(root), options.package, command, *arguments]
    done = subprocess.run(line, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    if done.returncode == OTHER_VERSION:
        raise UsageError(
            f"`vextract {command}` does not fit this project, which another vextract has made",
            hint="`vextract upgrade` brings the project up to date; its traceback stands above",
        )
    return done.returncode
