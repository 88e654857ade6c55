"""`vextract explain`: say why the project has a file or symbol."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from extractor.cli import output, screen, unfinished
from extractor.cli.options import From, Json, Offline, Project, Verbose, argument


def command(
    name: Annotated[str, argument("", "A file, a module or a symbol, in upstream's name or the project's.")],
    path: Project = Path(),
    from_: From = None,
    offline: Offline = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Say why a file or a symbol is here.

    For verl's code, print the chain of references that leads to it and how it was changed; for the project's own
    files, the template that they come from.
    """
    from extractor.project import base
    from extractor.usecases import restore
    from extractor.usecases.explain import Ours, explain
    from extractor.values import releases

    root, locked = unfinished.open_project(path, answers=True)
    name = _find_in_project(root, name)
    # What a template makes is explained without verl, and without what was inferred of a release.
    ours = Ours(root, locked, releases.load(locked.borrowed_from or locked.options.verl))
    found = tuple(filter(None, (ours.file(name),)))
    if not found:
        with output.steps(f"reading verl {locked.options.verl}"):
            again = restore.regenerate(locked, origin=from_, offline=offline)
            found = explain(again, locked.options, ours, name)
        if restore.list_differences(locked, base.collect_from_tree(again.generated.tree)):
            output.warning(
                f"vextract {locked.vextract} wrote this project from another verl or with other rules:"
                " what follows is what would be emitted now"
            )
    if json:
        output.data_json([asdict(item) for item in found])
    else:
        screen.show([], [screen.Section(item.lines(), "", " " * 11) for item in found], verbose=verbose)


def _find_in_project(root: Path, name: str) -> str:
    """Return a file's path in the project; other names unchanged."""
    for place in (Path(name), root / name):
        if place.is_file() and place.resolve().is_relative_to(root):
            return place.resolve().relative_to(root).as_posix()
    return name
