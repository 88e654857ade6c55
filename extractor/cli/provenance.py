"""`vextract provenance`: write the statement of a project; `verify --provenance` checks it."""

from pathlib import Path
from typing import TYPE_CHECKING

from extractor.cli import output, unfinished
from extractor.cli.options import Output, Project
from extractor.cli.sbom import print_or_write, wheel_of

if TYPE_CHECKING:
    from extractor.usecases.verify import Report


def command(path: Project = Path(), file: Output = None) -> None:
    """Write what a project was made from, as an in-toto statement.

    Its subjects are the files as vextract wrote them, by the lock; its predicate (SLSA provenance v1) names verl's
    wheel, vextract and the options.
    `vextract verify --provenance --statement FILE` checks it.
    """
    from extractor.project import location, lock
    from extractor.usecases.provenance import statement

    root = location.find(path)
    unfinished.refuse(root)
    locked = lock.read(root)
    print_or_write(statement(locked, wheel=wheel_of(locked)), file)


def check(root: Path, given: Path | None, *, strict: bool, from_: Path | None, offline: bool) -> "Report":
    """Make a project anew and compare."""
    from extractor.project import lock
    from extractor.usecases import restore
    from extractor.usecases.provenance import check_provenance, read_statement

    locked = lock.read(root)
    said = read_statement(given) if given is not None else None
    with output.steps("making the project anew"):
        again = restore.regenerate(locked, origin=from_, offline=offline)
    return check_provenance(
        root, locked, again.generated.tree, again.source, wheel=wheel_of(locked), given=said, strict=strict
    )
