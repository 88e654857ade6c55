"""`vextract graph`: the modules of a project, as a tree or as a picture."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import output, screen, unfinished
from extractor.cli.options import Json, Project

if TYPE_CHECKING:
    from rich.text import Text

    from extractor.usecases.graph import Graph, Module

_WHOSE = {"vendored": "of verl's", "template": "of ours", "hook": "of hooks", "owner": "of files that you added"}


def command(
    path: Project = Path(),
    svg: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write a picture; with -v it needs `pip install 'vextract[graph]'`."),
    ] = None,
    vendored: Annotated[bool, typer.Option("--vendored", help="Only upstream's modules.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every module; without it only the roles that they belong to.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the modules by role, with sizes and imports.

    Hooks and templates are shown as well as verl's modules.
    """
    from extractor.project import location, lock
    from extractor.usecases.graph import build

    root = location.find(path)
    unfinished.refuse(root)
    graph = build(root, lock.read(root))
    if vendored:
        graph = graph.only("vendored")
    if svg is not None:
        output.write_file(svg, _picture(graph, verbose))
    if json:
        output.data_json(_report(graph))
    elif svg is None and verbose:
        _print(graph)
    elif svg is None:
        _print_groups(graph)


def _picture(graph: "Graph", verbose: bool) -> str:
    if verbose:
        from extractor.usecases.graph.drawing import draw

        return draw(graph)
    from extractor.usecases.graph.matrix import draw_groups

    return draw_groups(graph)


def _print_groups(graph: "Graph") -> None:
    """Print a row for each group: its size, and the groups that it imports from, those with most imports first."""
    from extractor.usecases.graph.matrix import size
    from extractor.usecases.graph.modules import MEANING

    between = graph.between()
    names = {group: group.replace("_", " ") for group in graph.groups}
    width = max(map(len, names.values()), default=0)
    lines = []
    for group in graph.groups:
        modules = graph.of(group)
        counts = {target: len(imports) for (importer, target), imports in between.items() if importer == group}
        targets = [names[target] for target in sorted(counts, key=lambda target: (-counts[target], target))]
        told = size(len(modules), sum(module.lines for module in modules))
        lines.append(f"{names[group]:{width}}  {told:>23}" + (f"  -> {', '.join(targets)}" if targets else ""))
    files = size(len(graph.modules), sum(module.lines for module in graph.modules))
    kinds = [(kind, graph.size(kind)) for kind in MEANING]
    told = ", ".join(f"{lines:,} {_WHOSE[kind]}" for kind, (count, lines) in kinds if count)
    head = [graph.title, f"{files}: {told}; tests apart", "every module with -v, a picture with --svg FILE"]
    screen.show(head, [screen.Section(lines, prefix="")], verbose=False)


def _print(graph: "Graph") -> None:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    names = {module.path: output.plain(module.name.removesuffix(".py")) for module in graph.modules}
    tree = Tree(Text(graph.title, style="bold"))
    for group in graph.groups:
        modules = graph.of(group)
        lines = sum(module.lines for module in modules)
        files = f"{len(modules)} {'file' if len(modules) == 1 else 'files'}"
        branch = tree.add(Text.assemble((group.replace("_", " "), "bold"), (f"  {files}, {lines:,} lines", "dim")))
        width = max(len(names[module.path]) for module in modules)
        for module in modules:
            leaf = branch.add(_line(module, names[module.path], width))
            if module.imports:
                leaf.add(Text("-> " + ", ".join(names[target] for target in module.imports), style="dim"))
    # Off a terminal a line is as long as it is.
    console = Console(highlight=False) if sys.stdout.isatty() else Console(width=1000, highlight=False)
    with console.capture() as captured:
        console.print(tree)
    output.data(captured.get().rstrip("\n"), styled=True)


def _line(module: "Module", name: str, width: int) -> "Text":
    from rich.text import Text

    style = {"vendored": "blue", "hook": "green", "owner": "yellow"}.get(module.kind, "")
    marks = module.kind + (", edited" if module.edited else "")
    return Text.assemble((name.ljust(width), style), (f"  {module.lines:>6,}", ""), (f"  {marks}", "dim"))


def _report(graph: "Graph") -> dict[str, object]:
    return {
        "title": graph.title,
        "groups": [
            {
                "name": group,
                "lines": sum(module.lines for module in graph.of(group)),
                "modules": [
                    {
                        "path": module.path,
                        "kind": module.kind,
                        "lines": module.lines,
                        "upstream_path": module.upstream_path,
                        "edited": module.edited,
                        "imports": list(module.imports),
                        "imported_by": list(graph.importers(module.path)),
                    }
                    for module in graph.of(group)
                ],
            }
            for group in graph.groups
        ],
    }
