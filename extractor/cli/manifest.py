"""`vextract manifest draft`: what it takes to support another release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import output
from extractor.cli.options import From, Json, Offline

if TYPE_CHECKING:
    from extractor.pipeline.source import Source
    from extractor.usecases.draft import Draft, Finding, Fit

commands = typer.Typer(help="Draft what vextract must know about a new release of verl.")


@commands.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        output.data(context.get_help())


@commands.command("draft")
def draft_command(
    release: Annotated[str, typer.Argument(help="The release of verl, such as 0.9.2.")],
    from_: From = None,
    after: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="RELEASE", help="The release that it follows; the newest one before it by default."),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FILE", help="File to write; stdout by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE where it exists.")] = False,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Write the manifest that a release needs, as far as it can be inferred.

    It follows the newest manifest before it. What a person must decide is marked TODO.
    """
    if out is not None:
        check_output(out, force)
    base = _base(release, after)
    found, old, new = try_release(release, base, from_, offline)
    from extractor.usecases.draft import draft

    with output.progress("making a trial project"):
        problems = project_problems(found, new)
    made = draft(found, old, new, problems)
    if out is not None:
        _write(out, made.text)
    if json:
        output.data_json(_report(made, found, out))
        return
    if out is None:
        output.data(made.text.rstrip("\n"))
    say = output.note if out is None else output.data
    say(f"{'wrote ' + str(out) if out is not None else 'drafted'}: verl {release} after {base}, {_summary(made)}")
    for note in made.todo:
        say(f"  TODO  {note.text}")
    if not made.done:
        output.note("docs/releases.md explains each of them, and what comes next")


def check_output(out: Path, force: bool) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    import os

    from extractor.values.errors import UsageError

    if out.is_dir():
        raise UsageError(f"{out}: a directory", hint=f"name a file in it: {out}/verl-X.Y.Z.toml")
    if out.exists() and not force:
        raise UsageError(f"{out}: exists", hint="choose another name, or pass --force to replace it")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"{out}: its directory does not exist", hint=f"create it: mkdir -p {out.parent}")
    if not os.access(out.absolute().parent, os.W_OK | os.X_OK):
        raise UsageError(f"{out}: its directory is not writable", hint="choose another place")


def _write(out: Path, text: str) -> None:
    from extractor.project import disk
    from extractor.values.errors import UsageError

    try:
        disk.replace(out, text.encode())
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}", hint="choose another place") from None


def _base(release: str, after: str | None) -> str:
    from packaging.version import InvalidVersion, Version

    from extractor.values import releases
    from extractor.values.errors import UsageError

    known = releases.supported()
    try:
        wanted = Version(release)
    except InvalidVersion:
        raise UsageError(f"{release!r} is no release number", hint="write it as in 0.9.1") from None
    if after is not None:
        if after not in known or Version(after) >= wanted:
            raise UsageError(f"--after {after}: no supported release before {release}", hint=", ".join(known))
        return after
    before = [item for item in known if Version(item) < wanted]
    if not before:
        raise UsageError(f"verl {release} is older than all that this vextract knows", hint=f"the oldest is {known[0]}")
    return before[-1]


def try_release(release: str, base: str, origin: Path | None, offline: bool) -> tuple[Fit, Source, Source]:
    """Hold a release against the manifest of another one; also the two sources.

    Raises:
        SourceError: one of the two is not available.
    """
    from extractor.pipeline.source import open_source, open_unpinned
    from extractor.usecases.draft import fit
    from extractor.values import releases

    with output.progress(f"reading verl {release} and {base}"):
        if origin is None and release in releases.supported():
            pin = releases.load(release).pin
            new, filename = open_source(pin, offline=offline), pin.wheel_filename
        else:
            opened = open_unpinned(release, origin, offline=offline)
            new, filename = opened.source, opened.filename or ""
        old = open_source(releases.load(base).pin, offline=offline)
    with output.steps(f"trying the manifest of {base}") as say:
        return fit(base, old, new, filename or None, say), old, new


def project_problems(found: Fit, source: Source) -> tuple[str, ...]:
    """Return what is wrong with projects made from what holds: the plainest one, and one with all features."""
    from extractor.pipeline.generate import generate
    from extractor.usecases.draft import choices
    from extractor.usecases.verify.unwritten import import_problems
    from extractor.values.errors import VextractError

    problems: dict[str, None] = {}
    if found.left:
        return ()
    for options in choices(found.manifest)[:2]:
        try:
            tree = generate(options, source, found.manifest).tree
        except VextractError as error:
            problems[f"a project cannot be made: {error.message}"] = None
            continue
        problems.update(dict.fromkeys(import_problems(tree, options, source)))
    return tuple(problems)


def _summary(made: Draft) -> str:
    if made.done:
        return "nothing is left to decide; tests tell whether it is right"
    count = len(made.todo)
    return f"{count} thing{'' if count == 1 else 's'} to decide"


def finding_json(item: Finding) -> dict[str, object]:
    """Return one finding, as JSON's types."""
    return {
        "kind": item.kind.value,
        "where": item.where,
        "subject": item.subject,
        "problem": item.problem,
        "moved": item.moved,
        "suggestions": [{"place": found.place, "score": found.score, "why": found.why} for found in item.suggestions],
    }


def _report(made: Draft, found: Fit, out: Path | None) -> dict[str, object]:
    return {
        "release": made.release,
        "follows": made.follows,
        "path": str(out) if out is not None else None,
        "done": made.done,
        "todo": [{"where": note.where, "text": note.text} for note in made.todo],
        "open": list(made.open),
        "findings": [finding_json(item) for item in (*found.findings, *found.left)],
        "manifest": made.text,
    }
