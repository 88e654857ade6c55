"""`vextract manifest draft`: draft the manifest of another release; describe one that has none."""

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import output, screen
from extractor.cli.options import From, Offline, Output

if TYPE_CHECKING:
    from extractor.usecases.draft import Finding, ManifestFit

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
    out: Output = None,
    offline: Offline = False,
) -> None:
    """Write the manifest of a release, as far as it can be inferred.

    It follows the newest manifest before it. What a person must decide is marked TODO.
    """
    from extractor.pipeline.source import detect_release
    from extractor.usecases.draft.attempt import attempt
    from extractor.usecases.draft.draft import draft, find_predecessor, list_problems
    from extractor.values.errors import UsageError

    if out is not None and out.exists():
        raise UsageError(f"{out}: exists", hint="choose another name, or remove it")
    base = find_predecessor(release, after)
    with output.steps(f"verl {release}") as step:
        tried = attempt(release, base, from_, offline=offline, step=step)
        step("making a trial project")
        made = draft(tried, list_problems(tried))
    if from_ is not None and from_.is_dir() and (said := detect_release(from_)) != release:
        output.note(f"{from_} says that it is verl {said}: draft again from the release")
    if out is None:
        output.data(made.text.rstrip("\n"))
    else:
        output.write_file(out, made.text)
    output.note(f"drafted: verl {release} after {base}, {output.counted(len(made.todo), 'thing')} to decide")
    for note in made.todo:
        output.note(f"  TODO  {note.text}")
    if made.todo:
        output.note("docs/releases.md explains each of them, and what comes next")


def _finding_json(item: "Finding") -> dict[str, object]:
    """Return one finding, as JSON's types."""
    suggestions = output.pick_all(item.suggestions, "place score why")
    return output.pick(item, "kind where subject problem moved", suggestions=suggestions)


def show_fit(found: "ManifestFit", *, verbose: bool, json: bool) -> None:
    """Print how far the earlier manifest holds for a refused release."""
    items = (*found.findings, *found.left)
    if json:
        report = {"release": found.release, "manifest_of": found.base, "holds": found.holds}
        output.data_json({**report, "findings": [_finding_json(item) for item in items]})
        return
    said = f"{output.counted(len(items), 'part')} of it do not hold" if items else "all of it holds"
    lines = []
    for item in items:
        lines.append(f"  {item}")
        lines += [f"      {'taken' if near.place == item.moved else 'similar'}: {near}" for near in item.suggestions]
    head = f"verl {found.release}, tried with the manifest of {found.base}: {said}"
    screen.show([head], [screen.Section(lines)], verbose=verbose)


def show_left_out(found: "ManifestFit", *, verbose: bool) -> None:
    """Say what an experimental project lacks."""
    lines = [f"  {item}" for item in (*found.findings, *found.left)]
    screen.show([], [screen.Section(lines)], verbose=verbose, aside=True)
