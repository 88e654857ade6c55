"""How much of verl a project carries."""

from __future__ import annotations

from packaging.version import Version

from extractor.pipeline.generate import complete, generate
from extractor.pipeline.source import open_source
from extractor.values import releases
from extractor.values.options import Options
from extractor.values.tree import FileKind


def limit_of(release: str) -> int:
    """How many lines a project of a release may have."""
    if release == "0.5.0":
        return 4800
    return 7500 if Version(release) < Version("0.7") else 9500 if Version(release) < Version("0.8") else 15000


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
    return ok


def _leads_to_root(symbol: str, edges: dict) -> bool:  # type: ignore[type-arg]
    seen = set()
    while symbol in edges and symbol not in seen:
        seen.add(symbol)
        if edges[symbol].how in ("root", "effect") or edges[symbol].origin.startswith(("role ", "effect ")):
            return True
        symbol = edges[symbol].origin
    return symbol.startswith(("role ", "effect "))
