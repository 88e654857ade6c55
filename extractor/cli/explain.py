"""`vextract explain`: why a file or a symbol is in the project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extractor.cli import output
from extractor.cli.options import From, Json, Offline, Project

if TYPE_CHECKING:
    from extractor.explain import Explanation
    from extractor.slicer import Edge


def command(
    name: Annotated[str, typer.Argument(help="A file, a module or a symbol, in upstream's name or the project's.")],
    path: Project = Path(),
    from_: From = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Say why a file or a symbol is here.

    Prints the chain that leads to it from a root, and what was done to it.
    """
    from extractor import base, lock, project, restore

    root = project.find(path)
    locked = lock.read(root)
    with output.progress(f"reading verl {locked.options.verl}"):
        from extractor.explain import explain

        again = restore.regenerate(locked, origin=from_, offline=offline)
        found = explain(again.generated, again.manifest, locked.options, name)
    if restore.differences(locked, base.of_tree(again.generated.tree)):
        output.warning(
            f"vextract {locked.vextract} wrote this project from another verl or with other rules:"
            " what follows is what would be emitted now"
        )
    if json:
        output.data_json([_report(item) for item in found])
    else:
        output.data("\n\n".join(_text(item) for item in found))


def _text(item: Explanation) -> str:
    lines = [item.subject]
    if item.path != item.subject:
        lines.append(f"  in       {item.path}")
    lines.append(f"  from     {item.upstream_path}")
    lines += _block("why", [_edge(edge) for edge in item.chain])
    lines += _block("holds", item.symbols)
    lines += _block("changed", item.changes)
    lines += _block("fixes", item.fixes)
    lines += _block("note", item.note.splitlines())
    return "\n".join(lines)


def _block(label: str, lines: list[str] | tuple[str, ...]) -> list[str]:
    return [f"  {label if number == 0 else '':8} {line}" for number, line in enumerate(lines)]


def _edge(edge: Edge) -> str:
    if edge.how == "root":
        return f"{edge.symbol} is a root ({edge.origin})"
    return f"{edge.symbol} <- {edge.origin} {edge.how} it{f' (line {edge.line})' if edge.line else ''}"


def _report(item: Explanation) -> dict[str, object]:
    return {
        "subject": item.subject,
        "path": item.path,
        "upstream_path": item.upstream_path,
        "chain": [
            {"symbol": edge.symbol, "origin": edge.origin, "how": edge.how, "line": edge.line} for edge in item.chain
        ],
        "symbols": list(item.symbols),
        "changes": list(item.changes),
        "fixes": list(item.fixes),
        "note": item.note,
    }
