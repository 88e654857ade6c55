"""What `vextract new` does for a release of verl that has no manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from extractor.cli import output, screen

if TYPE_CHECKING:
    from extractor.pipeline.generate import Generated
    from extractor.pipeline.source import Source
    from extractor.usecases.draft import Finding, Fit
    from extractor.values.manifest import Manifest
    from extractor.values.options import Options


def infer(
    release: str, origin: Path | None, *, offline: bool, experimental: bool, verbose: bool, json: bool
) -> tuple[Manifest, Source]:
    """Try the manifest of the release before, and say what of it does not hold.

    Returns:
        With `experimental`, what could be inferred, and the source.

    Raises:
        UsageError: without `experimental`, always.
        SourceError: the release is not available.
        CheckFailed: nothing can be made from what holds.
    """
    from extractor.cli.manifest import try_release
    from extractor.values import releases
    from extractor.values.errors import SourceError, UsageError

    base = releases.before(release)
    assert base is not None
    try:
        found, _, source = try_release(release, base, origin, offline)
    except SourceError as error:
        known = ", ".join(releases.supported())
        raise SourceError(
            f"verl {release} is not supported by this vextract, and its source could not be read: {error.message}",
            hint=f"supported: {known} (`vextract versions`); otherwise {error.hint}",
        ) from None
    if not experimental:
        if json:
            output.data_json(_report(found))
        else:
            _show(found, verbose)
        raise UsageError(
            f"verl {release} is not supported by this vextract",
            hint="`--experimental` continues with the rest; `vextract manifest draft "
            f"{release}` writes its manifest; supported: {', '.join(releases.supported())}",
        )
    lines = [f"  {_line(item)}" for item in (*found.findings, *found.left)]
    screen.show([], [screen.Section(lines)], verbose=verbose, below=12, aside=True)
    output.warning(f"verl {release} has no manifest: this project uses that of {base}, and is untested")
    output.warning(
        f"no digest of verl {release} is known: the lock records {source.sha256}, and nothing vouches for it"
    )
    if found.left:
        raise _cannot(release, base, [_line(item) for item in found.left])
    return found.manifest, source


def check_project(generated: Generated, options: Options, source: Source, manifest: Manifest) -> None:
    """Refuse a project in which our own code imports what is not vendored; warn of packages that it does not ask for.

    Raises:
        CheckFailed: it does.
    """
    from extractor.usecases.verify.closed_imports import NOT_REQUIRED
    from extractor.usecases.verify.unwritten import import_problems

    problems = import_problems(generated.tree, options, source)
    for line in problems:
        if line.endswith(NOT_REQUIRED):
            output.warning(line)
    problems = tuple(line for line in problems if not line.endswith(NOT_REQUIRED))
    if problems:
        raise _cannot(manifest.release, manifest.borrowed_from or "", list(problems))


def _cannot(release: str, base: str, problems: list[str]) -> Exception:
    from extractor.values.errors import CheckFailed

    for line in problems:
        output.note(f"  {line}")
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return CheckFailed(
        f"no project of verl {release} can be made from what holds of the manifest of {base}: {problems[0]}{more}",
        hint=f"`vextract manifest draft {release}` writes down what is needed; docs/releases.md tells how to go on",
    )


def _show(found: Fit, verbose: bool) -> None:
    items = (*found.findings, *found.left)
    head = f"verl {found.release}, tried with the manifest of {found.base}"
    said = f"{len(items)} part{'' if len(items) == 1 else 's'} of it do not hold" if items else "all of it holds"
    lines = [line for item in items for line in _shown(item)]
    screen.show([f"{head}: {said}"], [screen.Section(lines)], verbose=verbose, below=4)


def _shown(item: Finding) -> list[str]:
    similar = [f"      {'taken' if found.place == item.moved else 'similar'}: {found}" for found in item.suggestions]
    return [f"  {_line(item)}", *similar]


def _line(item: Finding) -> str:
    return f"{item.kind.value:22}  {item.where}: {item.subject} {item.problem}"


def _report(found: Fit) -> dict[str, object]:
    from extractor.cli.manifest import finding_json

    return {
        "release": found.release,
        "manifest_of": found.base,
        "holds": found.holds,
        "findings": [finding_json(item) for item in (*found.findings, *found.left)],
    }
