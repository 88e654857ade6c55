"""Measure projects that were made elsewhere; see the package's docstring."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.gpu import __doc__ as about
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.projects import STEPS, WARM_UP
from benchmarks.gpu.report import SECONDS, measure
from benchmarks.gpu.shapes import SHAPES


def main(arguments: list[str]) -> int:
    """Print the table; the exit code is 1 where a case failed."""
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=(about or "").splitlines()[0])
    parser.add_argument("projects", nargs="+", type=Path, metavar="PROJECT", help="one of engine hf, one of vllm")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="half", help="of the model (half: 0.5 billion)")
    parser.add_argument("--prompts", type=int, help="in a step (as the shape has it)")
    parser.add_argument("--length", type=int, help="of a response, in tokens (as the shape has it)")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a run (%(default)s)")
    parser.add_argument("--only", default="", help=f"cases, with commas: {', '.join(case.name for case in CASES)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a case may take (%(default)s)")
    parser.add_argument("--results", type=Path, help="a file to append each figure to, as JSON")
    parser.add_argument("--logs", type=Path, help="a directory that keeps what each program says")
    given = parser.parse_args(arguments)
    only = [name for name in given.only.split(",") if name]
    unknown = sorted(set(only) - {case.name for case in CASES})
    if unknown:
        parser.error(f"no case {', '.join(unknown)}")
    missing = [str(path) for path in given.projects if not (path / "vextract.lock").is_file()]
    if missing:
        parser.error(f"not a project: {', '.join(missing)}")
    if given.steps <= WARM_UP:
        parser.error(f"--steps must be more than {WARM_UP}, which warm up")
    if given.logs is not None:
        given.logs = given.logs.resolve()
        given.logs.mkdir(parents=True, exist_ok=True)
    own = {name: value for name in ("prompts", "length") if (value := getattr(given, name)) is not None}
    shape = replace(SHAPES[given.shape], **own)
    done = measure(
        given.projects, shape, only, seconds=given.seconds, steps=given.steps, results=given.results, logs=given.logs
    )
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
