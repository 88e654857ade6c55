"""`vextract graph` and `vextract sbom`: describe a project."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from extractor.cli import output, screen, unfinished
from extractor.cli.options import Json, Output, Project, option

if TYPE_CHECKING:
    from extractor.usecases.graph import Graph


def command(
    path: Project = Path(),
    verbose: Annotated[bool, option("--verbose,-v", "Every module; without it only the folders.")] = False,
    json: Json = False,
) -> None:
    """Show the modules by folder, with sizes and imports.

    Hooks and templates are shown as well as verl's modules.
    """
    from extractor.usecases.graph import build

    graph = build(*unfinished.open_project(path))
    if json:
        output.data_json(_report(graph))
    else:
        _print(graph, verbose)


def _print(graph: "Graph", verbose: bool) -> None:
    """Print each role with its size and imports, most imports first."""
    between = graph.between()
    width = max(map(len, graph.groups), default=0)
    lines = []
    for group, modules in graph.groups.items():
        targets = [other for (one, other), _ in between.most_common() if one == group]
        size = f"{output.count_noun(len(modules), 'file')}, {sum(module.lines for module in modules):,} lines"
        lines.append(f"{group:{width}}  {size:>23}" + (f"  -> {', '.join(targets)}" if targets else ""))
        for module in modules if verbose else ():
            edited = ", edited" if module.edited else ""
            lines.append(f"  {module.path}  {module.lines:,} lines, {module.kind}{edited}")
            lines += [f"    -> {', '.join(module.imports)}"] if module.imports else []
    total = sum(module.lines for module in graph.modules)
    kinds: Counter[str] = Counter()
    for module in graph.modules:
        kinds[module.kind] += module.lines
    told = ", ".join(f"{count:,} of kind {kind}" for kind, count in sorted(kinds.items()))
    head = [graph.title, f"{output.count_noun(len(graph.modules), 'file')}, {total:,} lines: {told}; tests apart"]
    head += [] if verbose else ["every module with -v"]
    screen.show(head, [screen.Section(lines, prefix="")], verbose=verbose)


def _report(graph: "Graph") -> dict[str, object]:
    return {
        "title": graph.title,
        "groups": [
            {
                "name": group,
                "lines": sum(module.lines for module in modules),
                "modules": [{**asdict(module), "imported_by": graph.importers(module.path)} for module in modules],
            }
            for group, modules in graph.groups.items()
        ],
    }


def sbom(path: Project = Path(), file: Output = None) -> None:
    """Write a project's bill of materials, as SPDX 2.3 in JSON.

    It lists verl and its wheel, every file with its origin, digests and changes, and the pinned requirements. Nothing
    in it comes from the clock: it is dated 1980-01-01.
    """
    import json

    from extractor.usecases.sbom import write_sbom

    text = json.dumps(write_sbom(*unfinished.open_project(path)), indent=2)
    if file is None:
        output.data(text)
    else:
        output.write_file(file, f"{text}\n")
