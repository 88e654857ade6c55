"""Verify a project: imports, no Ray, locked hashes, parity with upstream."""

from collections.abc import Callable
from pathlib import Path

from extractor.pipeline.source import Source
from extractor.usecases.verify import interpreter, project_files
from extractor.usecases.verify.closed_imports import check_importable, check_imports, check_ray_free
from extractor.usecases.verify.dropped_methods import check_dropped_methods
from extractor.usecases.verify.hashes import check_base, check_hashes
from extractor.usecases.verify.parity import check_parity
from extractor.usecases.verify.report import Check, CheckStatus
from extractor.values import releases
from extractor.values.errors import CheckFailed
from extractor.values.manifest import Manifest, add_own

__all__ = ["Check", "CheckStatus", "run_verify"]


def run_verify(
    project: Path,
    *,
    source: Source,
    manifest: Manifest | None = None,
    python: str | None = None,
    parity: bool = True,
    strict: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[Check, ...]:
    """Run the checks of a project, in their order.

    Args:
        source: verl, of the project's release.
        manifest: What is known about that release; None: the one that vextract has.
        python: Interpreter that has the project's requirements; None: the project's own environment, or this one.
        parity: Compare numbers with upstream's.
        strict: An edited file is a failure.

    Raises:
        UsageError: the project has no lock, or a damaged one.
    """
    progress("reading the project")
    subject = project_files.read_project(project)
    checks = [
        check_imports(subject, source),
        check_ray_free(subject),
        check_dropped_methods(subject),
        check_hashes(subject, strict=strict),
        check_base(subject),
    ]
    try:
        chosen = interpreter.choose(project, python)
    except CheckFailed as error:
        checks.append(Check("importable", CheckStatus.FAILED, error.message, (f"hint: {error.hint}",)))
        return (*checks, *[Check("parity", CheckStatus.SKIPPED, "no Python for the project")] * parity)
    progress("importing every vendored module")
    checks.append(check_importable(subject, chosen))
    if parity:
        progress("comparing numbers with upstream")
        known = manifest or releases.load(subject.lock.options.verl)
        checks += check_parity(subject, source, add_own(known, subject.lock.options.manifest), chosen)
    return tuple(checks)
