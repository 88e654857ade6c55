"""How fast the command line is, against what cannot be avoided."""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from extractor.pipeline.generate import complete, generate
from extractor.pipeline.source import open_source
from extractor.values import releases
from extractor.values.options import Options
from extractor.values.tree import FileKind

ROUNDS = 5
HELP_ROUNDS = 21
LIMIT_NEW = 2.0
LIMIT_HELP = 1.5
# A command of typer's with one argument, that parses all of verl, and what is emitted once more as an edit needs it: no
# way of making a project by these libraries does less. Typer reads any argument by pydantic, which it requires.
PARSING = """
import gc; gc.disable()
import ast, json
from pathlib import Path
import libcst, typer

def parse(texts: Path) -> None:
    upstream, emitted = json.loads(texts.read_text(encoding="utf-8"))
    for text in upstream:
        ast.parse(text)
    for text in emitted:
        libcst.parse_module(text).code

typer.run(parse)
"""


class Seconds(NamedTuple):
    """Seconds of a process, or their ratio to another's: that passed, and that processors spent on it."""

    wall: float
    processor: float


def run() -> bool:
    """Print the ratios; True where both limits hold."""
    ok = True
    print(
        "Each side is a process of its own. Seconds of a processor leave out waiting, for the disk or other programs.\n"
    )
    print("| what | against | ratio (median of pairs) | limit | of the processor's seconds |")
    print("|---|---|---|---|---|")
    for release in releases.list_supported():
        ratios = _new_against_parsing(release)
        ok = ok and ratios.wall <= LIMIT_NEW
        print(
            f"| `vextract new --verl {release}`, warm cache "
            "| a command of typer's: ast.parse of verl, libcst of the emitted files "
            f"| {ratios.wall:.2f}x | {LIMIT_NEW}x | {ratios.processor:.2f}x |"
        )
    ratios = _paired(
        lambda: _run(str(Path(sys.executable).with_name("vextract")), "--help"),
        lambda: _python("-c", "import typer"),
        HELP_ROUNDS,
    )
    help_ = "| `vextract --help` | `python -c 'import typer'` "
    print(f"{help_}| {ratios.wall:.2f}x | {LIMIT_HELP}x | {ratios.processor:.2f}x |")
    return ok and ratios.wall <= LIMIT_HELP


def _new_against_parsing(release: str) -> Seconds:
    manifest = releases.load(release)
    source = open_source(manifest.pin)
    options = complete(Options("bench", release), manifest)
    emitted = [
        file.data.decode()
        for file in generate(options, source, manifest).tree
        if file.kind is FileKind.VENDORED and file.path.endswith(".py")
    ]
    upstream = [source.read(path) for path in source.files if path.endswith(".py")]

    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder, "texts.json")
        texts.write_text(json.dumps([upstream, emitted]), encoding="utf-8")

        def new() -> None:
            with tempfile.TemporaryDirectory() as place:
                _python("-m", "extractor", "new", str(Path(place) / "bench"), "--verl", release, "--offline")

        return _paired(new, lambda: _python("-c", PARSING, str(texts)))


def _paired(one: Callable[[], None], other: Callable[[], None], rounds: int = ROUNDS) -> Seconds:
    """Median ratios of the two, run in turn so that a machine's drift meets both alike."""
    one()
    other()
    pairs = [(_seconds(one), _seconds(other)) for _ in range(rounds)]
    return Seconds(
        statistics.median(ours.wall / theirs.wall for ours, theirs in pairs),
        statistics.median(ours.processor / theirs.processor for ours, theirs in pairs),
    )


def _seconds(action: Callable[[], None]) -> Seconds:
    start, before = time.perf_counter(), _of_children()
    action()
    return Seconds(time.perf_counter() - start, _of_children() - before)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _python(*arguments: str) -> None:
    _run(sys.executable, *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
