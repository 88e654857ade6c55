"""How much of verl a project carries."""

from __future__ import annotations

import tempfile
from pathlib import Path

from packaging.version import Version

from benchmarks.executed import execute
from benchmarks.training import make_project
from extractor.pipeline.generate import complete, generate
from extractor.pipeline.source import open_source
from extractor.project import lock
from extractor.values import releases
from extractor.values.options import Options
from extractor.values.tree import FileKind

# Vendored lines of a project, by the release from which on they are allowed.
LIMITS = {"0.4.0": 4600, "0.5.0": 4900, "0.6.0": 7000, "0.7.0": 7700, "0.7.1": 9000, "0.8.0": 10_500, "0.9.0": 11_500}
# Of the statements of the newest release's, those that the toy task runs.
SHARE = 0.47


def limit_of(release: str) -> int:
    """Say how many lines a project of a release may have."""
    return next(lines for first, lines in reversed(LIMITS.items()) if Version(first) <= Version(release))


def run() -> bool:
    """Print a row per release; True where every limit holds."""
    ok = True
    print("| verl | files | lines | of verl's | share | limit | reachable from a root |")
    print("|---|---|---|---|---|---|---|")
    for release in releases.supported():
        manifest = releases.load(release)
        source = open_source(manifest.pin)
        options = complete(Options("bench", release), manifest)
        made = generate(options, source, manifest)
        vendored = [file for file in made.tree if file.kind is FileKind.VENDORED and file.path.endswith(".py")]
        lines = sum(file.data.count(b"\n") for file in vendored)
        roots = [edge for edge in made.found.edges.values() if edge.how == "root"]
        reached = all(_leads_to_root(symbol, made.found.edges) for symbol in made.found.edges)
        limit = limit_of(release)
        ok = ok and reached and lines <= limit
        print(
            f"| {release} | {len(vendored)} | {lines:,} | {source.lines:,} | {lines / source.lines:.1%} "
            f"| {limit} | {'all' if reached else 'NOT ALL'} of {len(made.found.edges)}, {len(roots)} roots |"
        )
    return _print_executed() and ok


def _print_executed() -> bool:
    """Print what the toy task runs of the newest release's code; True where that is enough."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "bench")
        files = [file.path for file in lock.read(project).files if file.kind is FileKind.VENDORED]
        found = execute(project, [path for path in files if path.endswith(".py")], Path(folder) / "lines.json")
    print(f"\nThe toy task runs {found.run:,} of {found.total:,} vendored statements: {found.share:.1%}, ", end="")
    print(f"limit {SHARE:.0%}. The largest functions of which it runs nothing:\n")
    print("| file | function | lines |")
    print("|---|---|---|")
    for piece in found.never[:10]:
        print(f"| {piece.file} | `{piece.name}` | {piece.lines} |")
    return found.share >= SHARE


def _leads_to_root(symbol: str, edges: dict) -> bool:  # type: ignore[type-arg]
    ends = ("role ", "effect ", "the project's own code")
    seen = set()
    while symbol in edges and symbol not in seen:
        seen.add(symbol)
        if edges[symbol].how in ("root", "effect"):
            return True
        symbol = edges[symbol].origin
    return symbol.startswith(ends)
