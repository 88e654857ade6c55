# vextract:template - edit freely; upgrades merge your edits
"""Write a page about one or several runs: a single HTML file that needs nothing else, also no network.

    python -m generated_example.report checkpoints/generated_example/default
    python -m generated_example.report checkpoints/generated_example/one checkpoints/generated_example/two -o comparison.html

RUN_DIR is a run's directory, or the metrics.N.jsonl in it of an earlier run there. A run may still be going on.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..training.tracking import write_whole
from .page import render
from .runs import ReportError, read_runs


def main(arguments: Sequence[str]) -> int:
    """Write the page; returns the exit code: 0 done, 2 a directory holds no run or the page cannot be written."""
    parser = argparse.ArgumentParser(
        prog="python -m generated_example.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN_DIR", type=Path, help="a run's directory")
    parser.add_argument(
        "-o", "--output", type=Path, help="the page (default: report.html, in the run's directory if it is one run)"
    )
    options = parser.parse_args(arguments)
    try:
        runs = read_runs(options.runs)
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for run in runs:
        if not run.rows:
            print(f"note: {run.path} has no metrics yet", file=sys.stderr)
    output = options.output or (runs[0].directory / "report.html" if len(runs) == 1 else Path("report.html"))
    page = render(runs)
    try:
        write_whole(output, page)
    except OSError as error:
        print(f"error: {output} cannot be written: {error.strerror}", file=sys.stderr)
        print("hint: -o FILE chooses another place", file=sys.stderr)
        return 2
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
