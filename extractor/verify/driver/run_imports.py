"""Import every vendored module where only the declared requirements, and neither Ray nor verl, can be imported."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from .blocking import block


def main(job_path: Path, result_path: Path) -> None:
    """Run the job: {root, modules, blocked}."""
    job = json.loads(job_path.read_text(encoding="utf-8"))
    block(job["blocked"])
    sys.path.insert(0, job["root"])
    errors: dict[str, dict[str, Any]] = {}
    for name in job["modules"]:
        try:
            importlib.import_module(name)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            frames = traceback.extract_tb(error.__traceback__)
            inside = [frame for frame in frames if frame.filename.startswith(job["root"])]
            errors[name] = {
                "error": f"{type(error).__name__}: {error}",
                "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
                "file": inside[-1].filename if inside else None,
                "line": inside[-1].lineno if inside else None,
            }
    leaked = sorted(name for name in sys.modules if name.partition(".")[0] in job["blocked"])
    result_path.write_text(json.dumps({"errors": errors, "leaked": leaked}), encoding="utf-8")
