"""`vextract explain`: say why a file or a symbol is in the project."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extractor.cli import output, screen, unfinished
from extractor.cli.options import From, Json, Offline, Project, Verbose

if TYPE_CHECKING:
    from extractor.pipeline.slicer import Edge
    from extractor.project.lock import Lock
    from extractor.usecases.explain import Explanation


def command(
    name: Annotated[str, typer.Argument(help="A file, a module or a symbol, in upstream's name or the project's.")],
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
    from extractor.project import location, lock

    root = location.find(path)
    unfinished.warn(root)
    found = _explain(root, lock.read(root), _in_project(root, name), from_, offline)
    if json:
        output.data_json([asdict(item) for item in found])
        return
    screen.show(
        [],
        [screen.Section(_lines(item), "", " " * 11) for item in found],
        verbose=verbose,
    )


def _explain(root: Path, locked: "Lock", name: str, origin: Path | None, offline: bool) -> "tuple[Explanation, ...]":
    from extractor.project import base
    from extractor.usecases import restore
    from extractor.usecases.explain import Ours, explain
    from extractor.values import releases

    # What a template makes is explained without verl, and without what was inferred of a release.
    ours = Ours(root, locked, releases.load(locked.borrowed_from or locked.options.verl))
    known = ours.file(name)
    if known is not None:
        return (known,)
    with output.progress(f"reading verl {locked.options.verl}"):
        again = restore.regenerate(locked, origin=origin, offline=offline)
        found = explain(again.generated, again.manifest, locked.options, again.source, ours, name)
    if restore.differences(locked, base.of_tree(again.generated.tree)):
        output.warning(
            f"vextract {locked.vextract} wrote this project from another verl or with other rules:"
            " what follows is what would be emitted now"
        )
    return found


def _in_project(root: Path, name: str) -> str:
    """Return a file's path in the project; any other name as it is."""
    for place in (Path(name), root / name):
        if place.is_file() and place.resolve().is_relative_to(root):
            return place.resolve().relative_to(root).as_posix()
    return name


def _lines(item: "Explanation") -> list[str]:
    lines = [item.subject]
    if item.path != item.subject:
        lines.append(f"  in       {item.path}")
    lines.append(f"  whose    {item.whose}")
    if item.upstream_path:
        lines.append(f"  from     {item.upstream_path}")
        digest = f", sha256 of that file {item.upstream_sha256}" if item.upstream_sha256 else ""
        lines.append(f"  release  verl {item.release}{digest}")
    if item.templates:
        lines.append(f"  from     templates/{item.templates[-1]}")
    lines += _block("over", [f"templates/{path}" for path in reversed(item.templates[:-1])])
    lines += _block("why", [_edge(edge) for edge in item.chain])
    lines += _block("note", item.note.splitlines())
    lines += _block("fixes", item.fixes)
    lines += _block("changed", item.changes)
    lines += _block("holds", item.symbols)
    return lines


def _block(label: str, lines: list[str] | tuple[str, ...]) -> list[str]:
    return [f"  {label if number == 0 else '':8} {line}" for number, line in enumerate(lines)]


def _edge(edge: "Edge") -> str:
    if edge.how == "root":
        return f"{edge.symbol} is a root ({edge.origin})"
    return f"{edge.symbol} <- {edge.origin} {edge.how} it{f' (line {edge.line})' if edge.line else ''}"
