"""`vextract explain` and `sbom`: what a project is made of."""

from pathlib import Path
from typing import Annotated

from extractor.cli import output, screen, unfinished
from extractor.cli.options import From, Offline, Output, Project, argument


@screen.answers
def explain(
    name: Annotated[str, argument("", "A file, a module or a symbol, in upstream's name or the project's.")],
    path: Project = Path(),
    from_: From = None,
    offline: Offline = False,
) -> screen.Answer:
    """Say why a file or a symbol is here.

    For verl's code, print the chain of references that leads to it and how it was changed; for the project's own
    files, the template that they come from.
    """
    from extractor.project import base
    from extractor.usecases import emitted_files
    from extractor.usecases import explain as explaining
    from extractor.values import releases

    root, locked = unfinished.open_project(path, allow_conflicts=True)
    name = _find_in_project(root, name)
    # What a template makes is explained without verl, and without what was inferred of a release.
    ours = explaining.TemplateFiles(root, locked, releases.load(locked.borrowed_from or locked.options.verl))
    found = tuple(filter(None, (ours.file(name),)))
    if not found:
        with output.show_progress(f"reading verl {locked.options.verl}"):
            again = emitted_files.regenerate(locked, origin=from_, offline=offline)
            found = explaining.explain(again, locked.options, ours, name)
        if emitted_files.list_differences(locked, base.collect_from_tree(again.generated.tree)):
            output.print_warning(
                f"vextract {locked.vextract} wrote this project from another verl or with other rules:"
                " what follows is what would be emitted now"
            )
    return screen.Answer(found, sections=[screen.Section(item.lines()) for item in found])


def _find_in_project(root: Path, name: str) -> str:
    """Return a file's path in the project; other names unchanged."""
    for place in (Path(name), root / name):
        if place.is_file() and place.resolve().is_relative_to(root):
            return place.resolve().relative_to(root).as_posix()
    return name


def sbom(path: Project = Path(), file: Output = None) -> None:
    """Write a project's bill of materials, as SPDX 2.3 in JSON.

    It lists verl and its wheel, every file with its origin, digests and changes, and the pinned requirements. Nothing
    in it comes from the clock: it is dated 1980-01-01.
    """
    import json

    from extractor.usecases.sbom import write_sbom

    text = json.dumps(write_sbom(*unfinished.open_project(path)), indent=2)
    if file is None:
        output.print_data(text)
    else:
        output.write_file(file, f"{text}\n")
        output.print_note(f"wrote {file}")
