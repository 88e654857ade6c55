"""How much of verl a project carries, and how much code of our own."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.version import Version

from benchmarks.environment import on_one_thread
from benchmarks.executed import execute, execute_in_terminal
from benchmarks.training import make_project
from extractor.pipeline.generate import complete, generate
from extractor.pipeline.source import open_source
from extractor.project import lock
from extractor.values import readers, releases
from extractor.values.options import Options
from extractor.values.tree import FileKind

# Vendored lines of a project, by the release from which on they are allowed.
LIMITS = {"0.4.0": 4600, "0.5.0": 4900, "0.6.0": 7000, "0.7.0": 7700, "0.7.1": 9000, "0.8.0": 10_500, "0.9.0": 11_500}
# Of the statements of the newest release's, those that the toy task runs.
SHARE = 0.47
# Of our own code in a default project of the newest release.
OWN_LIMITS = {
    "lines of Python, tests apart": 8000,
    "files": 80,
    "lines of tests": 1500,
    "dependencies": 15,
    "files that a step runs": 25,
    "functions that a step runs": 120,
    "lines with all features": 27_000,
}
OWN_SHARE = 0.75


def limit_of(release: str) -> int:
    """Say how many lines a project of a release may have."""
    return next(lines for first, lines in reversed(LIMITS.items()) if Version(first) <= Version(release))


def run() -> bool:
    """Print a row per release; True where every limit holds."""
    ok = True
    print("| verl | files | lines | of verl's | share | limit | reachable from a root |")
    print("|---|---|---|---|---|---|---|")
    for release in releases.list_supported():
        manifest = releases.load(release)
        source = open_source(manifest.pin)
        options = complete(Options("bench", release), manifest)
        made = generate(options, source, manifest)
        vendored = [file for file in made.tree if file.kind is FileKind.VENDORED and file.path.endswith(".py")]
        lines = sum(file.data.count(b"\n") for file in vendored)
        roots = [edge for edge in made.sliced.edges.values() if edge.how == "root"]
        reached = all(_leads_to_root(symbol, made.sliced.edges) for symbol in made.sliced.edges)
        limit = limit_of(release)
        ok = ok and reached and lines <= limit
        print(
            f"| {release} | {len(vendored)} | {lines:,} | {source.lines:,} | {lines / source.lines:.1%} "
            f"| {limit} | {'all' if reached else 'NOT ALL'} of {len(made.sliced.edges)}, {len(roots)} roots |"
        )
    ok = _print_executed() and ok
    return _print_own() and ok


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


def _print_own() -> bool:
    """Print how much code of ours a default project has, and how much of it a toy run executes."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "bench")
        everything = make_project(
            Path(folder) / "all", features=[item.name for item in releases.load(releases.find_default()).features]
        )
        own = _own(project)
        found = execute_in_terminal(project, own, Path(folder) / "lines.json")
        script = Path(__file__).with_name("one_step.py")
        step = subprocess.run(
            [sys.executable, script], cwd=project, env=on_one_thread(NO_COLOR="1"), check=True, stdout=subprocess.PIPE
        )
        files, functions = json.loads(step.stdout.splitlines()[-1])
        needs = readers.parse_toml((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
        figures = dict(
            zip(
                OWN_LIMITS,
                (
                    _lines(project, own),
                    len(own),
                    _lines(project, (f"tests/{path.name}" for path in (project / "tests").glob("*.py"))),
                    len(needs),
                    files,
                    functions,
                    _lines(everything, _own(everything)),
                ),
                strict=True,
            )
        )
    print("\n| our own code, default project | is | limit |\n|---|---|---|")
    for name, figure in figures.items():
        print(f"| {name} | {figure:,} | {OWN_LIMITS[name]:,} |")
    what = "statements that a toy run in a terminal executes, stopped and resumed"
    print(f"| {what} | {found.share:.0%} | {OWN_SHARE:.0%} |")
    return found.share >= OWN_SHARE and all(figure <= OWN_LIMITS[name] for name, figure in figures.items())


def _own(project: Path) -> list[str]:
    """Return the paths of Python files that are not verl's, without tests."""
    kept = lock.read(project).files
    return [
        file.path
        for file in kept
        if file.kind is not FileKind.VENDORED and file.path.endswith(".py") and not file.path.startswith("tests/")
    ]


def _lines(project: Path, paths: Iterable[str]) -> int:
    return sum((project / path).read_bytes().count(b"\n") for path in paths)


def _leads_to_root(symbol: str, edges: dict) -> bool:  # type: ignore[type-arg]
    ends = ("role ", "effect ", "the project's own code", "the project's templates")
    seen = set()
    while symbol in edges and symbol not in seen:
        seen.add(symbol)
        if edges[symbol].how in ("root", "effect"):
            return True
        symbol = edges[symbol].origin
    return symbol.startswith(ends)
