"""Run test files with pytest on one side, and write down each test's outcome."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from .blocking import block
from .run_parity import preload
from .sides import import_upstream, prepare_upstream


def main(job_path: Path, result_path: Path) -> None:
    """Run the job: {side, root, place, files}."""
    job = json.loads(job_path.read_text(encoding="utf-8"))
    try:
        pytest = importlib.import_module("pytest")
    except ImportError:
        hint = f"{sys.executable} -m pip install pytest; or pass --python"
        text = json.dumps({"error": "pytest is not installed in the project's Python", "hint": hint, "tests": {}})
        result_path.write_text(text, encoding="utf-8")
        return
    place = Path(job["place"])
    os.chdir(place)
    preload()
    if job["side"] == "upstream":
        stubber = prepare_upstream(Path(job["root"]))
        for module in _modules(place, job["files"]):
            with contextlib.suppress(Exception):
                import_upstream(module, stubber)
    else:
        block(["ray", "verl"])
        sys.path.insert(0, job["root"])
    recorder = Recorder()
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(place), "-c", os.devnull]
    pytest.main([*options, *job["files"]], plugins=[recorder])
    result_path.write_text(json.dumps({"error": "", "hint": "", "tests": recorder.tests}), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


def _modules(place: Path, files: list[str]) -> list[str]:
    """Modules of upstream's that the files import."""
    found = set()
    for file in files:
        for node in ast.walk(ast.parse((place / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
            elif isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
    return sorted(name for name in found if name.partition(".")[0] == "verl")


class Recorder:
    """Collects what pytest reports.

    Attributes:
        tests: By test: its outcome ("passed", "failed", "skipped") and, unless it passed, the last line of why.
    """

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take the outcome of the call, or of a set-up that did not pass."""
        if report.when == "call" or report.outcome != "passed":
            self._record(report)

    def pytest_collectreport(self, report: Any) -> None:
        """Take a file that cannot be collected."""
        if report.outcome == "failed":
            self._record(report)

    def _record(self, report: Any) -> None:
        message = ""
        if report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            text = str(crash.message if crash is not None else report.longrepr)
            message = " ".join(text.split())[:300]
        self.tests[report.nodeid] = {"outcome": report.outcome, "message": message}
