"""`vextract verify`: prove that a project is closed, free of Ray, as locked, and computes what upstream computes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from extractor.cli import output
from extractor.cli.options import From, Json, Offline, Project

SHOWN = 12


def command(
    path: Project = Path(),
    python: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="PYTHON", help="Interpreter that has the project's requirements; this one by default."),
    ] = None,
    upstream_tests: Annotated[
        bool, typer.Option("--upstream-tests", help="Also run upstream's own unit tests against the project.")
    ] = False,
    parity: Annotated[
        bool, typer.Option("--parity/--no-parity", help="Compare numbers with upstream's own code.")
    ] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Edited files are failures, not remarks.")] = False,
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
    from extractor.verify import Status, run_verify

    with output.steps("checking") as say:
        report = run_verify(
            root,
            source=source,
            python=python,
            parity=parity,
            upstream_tests=upstream_tests,
            strict=strict,
            progress=say,
        )
    if json:
        checks = [
            {
                "name": check.name,
                "status": check.status.value,
                "summary": check.summary,
                "details": list(check.details),
            }
            for check in report.checks
        ]
        output.data_json({"path": str(root), "ok": report.ok, "checks": checks})
    else:
        width = max((len(check.name) for check in report.checks), default=0)
        for check in report.checks:
            output.data(f"{check.status.value:8}  {check.name:{width}}  {check.summary}".rstrip())
            if check.status in (Status.FAILED, Status.REPORTED):
                for line in check.details[:SHOWN]:
                    output.data(f"{'':10}{line}")
                if len(check.details) > SHOWN:
                    output.data(f"{'':10}and {len(check.details) - SHOWN} more: --json has them all")
    if not report.ok:
        failed = sum(not check.ok for check in report.checks)
        output.error(
            f"{failed} of {len(report.checks)} checks failed",
            "`vextract explain NAME` says where a file comes from and what was done to it",
        )
    return 0 if report.ok else 1
