"""`vextract manifest draft`: draft the manifest of another release."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import output
from extractor.cli.options import From, Json, Offline

if TYPE_CHECKING:
    from extractor.usecases.draft import Draft, Finding, ManifestFit

commands = typer.Typer(help="Draft what vextract must know about a new release of verl.")


@commands.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        output.data(context.get_help(), styled=True)


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
    """Write the manifest of a release, as far as it can be inferred.

    It follows the newest manifest before it. What a person must decide is marked TODO.
    """
    if out is not None:
        check_output(out, force)
    from extractor.usecases.draft import attempt as trying
    from extractor.usecases.draft import draft

    base = trying.follows(release, after)
    with output.steps(f"verl {release}") as step:
        tried = trying.attempt(release, base, from_, offline=offline, step=step)
        step("making a trial project")
        problems = trying.project_problems(tried.fit, tried.new)
    made = draft(tried.fit, tried.old, tried.new, problems)
    if out is not None:
        _write(out, made.text)
    if json:
        output.data_json(_report(made, tried.fit, out))
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


def _summary(made: "Draft") -> str:
    if made.done:
        return "nothing is left to decide; tests tell whether it is right"
    count = len(made.todo)
    return f"{count} thing{'' if count == 1 else 's'} to decide"


def finding_json(item: "Finding") -> dict[str, object]:
    """Return one finding, as JSON's types."""
    return {
        "kind": item.kind.value,
        "where": item.where,
        "subject": item.subject,
        "problem": item.problem,
        "moved": item.moved,
        "suggestions": [{"place": found.place, "score": found.score, "why": found.why} for found in item.suggestions],
    }


def _report(made: "Draft", found: "ManifestFit", out: Path | None) -> dict[str, object]:
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
