"""Run one of vextract's commands inside a project: `python in_project.py PROJECT PACKAGE COMMAND ARGUMENT...`.

The interpreter is the project's, and has no vextract. This directory becomes a second place of the project's package,
so that `plan/` is imported as PACKAGE.plan and takes what it needs from the project by relative imports.
"""

import importlib
import sys
import traceback
from pathlib import Path

OTHER_VERSION = 70  # the project lacks what the command needs of it


def main() -> int:
    """Import the command into the project's package and run it; returns its exit code."""
    project, package, command, *arguments = sys.argv[1:]
    sys.path[0] = project
    sys.dont_write_bytecode = True
    try:
        importlib.import_module(package).__path__.append(str(Path(__file__).resolve().parent))
        found = importlib.import_module(f"{package}.{command}.command")
        code: int = found.main(Path(project), arguments)
    except ImportError as error:
        if str(error.name).partition(".")[0] != package:
            raise
        traceback.print_exc()
        return OTHER_VERSION
    return code


if __name__ == "__main__":
    sys.exit(main())
