"""`vextract verify`: prove that a project is closed, free of Ray, as locked, and computes what upstream computes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from extractor.cli import output
from extractor.cli.options import From, Json, Offline, Project


def command(
    path: Project = Path(),
    python: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="PYTHON", help="Interpreter that has the project's requirements; this one by default."),
    ] = None,
    upstream_tests: Annotated[
        bool, typer.Option("--upstream-tests", help="Also run upstream's own unit tests against the project.")
    ] = False,
    from_: From = None,
    offline: Offline = False,
    json: Json = False,
) -> int:
    """Check a project against upstream.

    Closed imports, no Ray, the lock's hashes, and the same numbers as upstream's.
    """
    from extractor import lock, project, releases
    from extractor.source import open_source

    root = project.find(path)
    release = lock.read(root).options.verl
    with output.progress(f"reading verl {release}"):
        source = open_source(releases.load(release).pin, from_, offline=offline)
    with output.progress("checking"):
        from extractor.verify import run_verify

        report = run_verify(root, source=source, python=python, upstream_tests=upstream_tests)
    if json:
        checks = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in report.checks]
        output.data_json({"path": str(root), "ok": report.ok, "checks": checks})
    else:
        width = max((len(check.name) for check in report.checks), default=0)
        for check in report.checks:
            output.data(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:{width}}  {check.detail}".rstrip())
    if not report.ok:
        failed = sum(not check.ok for check in report.checks)
        output.error(
            f"{failed} of {len(report.checks)} checks failed",
            "`vextract explain NAME` says where a file comes from and what was done to it",
        )
    return 0 if report.ok else 1
