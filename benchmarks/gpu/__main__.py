"""Measure projects that were made elsewhere; see the package's docstring."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.gpu import __doc__ as about
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.report import SECONDS, measure
from benchmarks.gpu.shapes import SHAPES


def main(arguments: list[str]) -> int:
    """Print the table; the exit code is 1 where a case failed."""
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=(about or "").splitlines()[0])
    parser.add_argument("projects", nargs="+", type=Path, metavar="PROJECT", help="one of engine hf, one of vllm")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="half", help="of the model (half: 0.5 billion)")
    parser.add_argument("--only", default="", help=f"cases, with commas: {', '.join(case.name for case in CASES)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a case may take (%(default)s)")
    parser.add_argument("--results", type=Path, help="a file to append each figure to, as JSON")
    given = parser.parse_args(arguments)
    only = [name for name in given.only.split(",") if name]
    unknown = sorted(set(only) - {case.name for case in CASES})
    if unknown:
        parser.error(f"no case {', '.join(unknown)}")
    missing = [str(path) for path in given.projects if not (path / "vextract.lock").is_file()]
    if missing:
        parser.error(f"not a project: {', '.join(missing)}")
    done = measure(given.projects, SHAPES[given.shape], only, seconds=given.seconds, results=given.results)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
