# vextract:template base/__package__/report/__main__.py - edit freely
"""Write a page about one or several runs: a single HTML file that needs nothing else, also no network.

    python -m PACKAGE.report checkpoints/PROJECT/default
    python -m PACKAGE.report checkpoints/PROJECT/one checkpoints/PROJECT/two -o comparison.html
    python -m PACKAGE.report checkpoints/PROJECT/default --serve     a page that follows the run

RUN_DIR is a run's directory, or the metrics.N.jsonl in it of an earlier run there. A run may still be going on.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..output import say
from ..tracking.run_tracker import write_whole
from .page import render
from .runs import ReportError, read_runs
from .serve import ReportServer
from .table import metrics_table


def main(arguments: Sequence[str]) -> int:
    """Write or serve the page; returns the exit code: 0 done, 2 no run is there or a file cannot be written."""
    options = _parser().parse_args(arguments)
    try:
        runs = read_runs(options.runs)
        for run in runs:
            if not run.rows:
                print(f"note: {run.path} has no metrics yet", file=sys.stderr)
        if options.csv:
            _write(options.csv, metrics_table(runs))
        if options.serve:
            _serve(options.runs, options.port)
        else:
            directory = runs[0].directory if len(runs) == 1 else Path()
            _write(options.output or directory / "report.html", render(runs))
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN_DIR", type=Path, help="a run's directory")
    parser.add_argument(
        "-o", "--output", type=Path, help="the page (default: report.html, in the run's directory if it is one run)"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write all metrics, exactly, as a table")
    parser.add_argument(
        "--serve", action="store_true", help="write no page, but serve one on this machine that follows the runs"
    )
    parser.add_argument("--port", type=int, default=8000, help="for --serve (default: 8000; 0: any that is free)")
    return parser


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {error.strerror}", "name a file in another place") from error
    say(str(path))


def _serve(paths: Sequence[Path], port: int) -> None:
    try:
        server = ReportServer(paths, port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ReportError(f"port {port} cannot be used: {reason}", "--port 0 takes any that is free") from error
    with server:
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
