"""How many small changes of vendored code `vextract verify` sees: `python -m benchmarks mutants --seed 1`."""

import argparse
import ast
import contextlib
import difflib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutations import Mutation, mutations, parses
from benchmarks.training import make_project
from extractor.pipeline.source import open_source
from extractor.usecases.verify import interpreter, parity
from extractor.usecases.verify import project_files as subjects
from extractor.values import readers, releases

LIMIT, LIMIT_BY_HAND = 0.93, 0.8
COUNT = 60
BY_HAND = Path(__file__).with_name("by_hand.toml")
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
# Beside what every project has: whatever else computes something.
FEATURES = ("distillation", "dynamic_bsz", "reward_managers", "rollout_correction")


Ask = Callable[["Mutant"], str]


@dataclass(frozen=True)
class Mutant:
    """A mutation of one file, with the cases that run the line."""

    path: str
    upstream: str
    text: bytes
    mutation: Mutation
    cases: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Its name in equivalents.toml."""
        return self.mutation.digest(self.text)

    def diff(self) -> str:
        """Return what it changes."""
        before, after = (data.decode().splitlines() for data in (self.text, self.mutation.apply(self.text)))
        lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
        return "\n".join(f"    {line}" for line in lines)


def run() -> bool:
    """Measure by the first seed."""
    return main([]) == 0


def main(arguments: Sequence[str]) -> int:
    """Draw mutants, run the cases on each, print the survivors and the share; 1 where it is below the limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--release", default=releases.find_default(), choices=releases.list_supported())
    parser.add_argument(
        "--all-features", action="store_true", help="mutate a critic's and optional features' code, too"
    )
    parser.add_argument("--by-hand", action="store_true", help="those of by_hand.toml instead, which nobody drew")
    parser.add_argument("--only", default="", help="of functions whose module or name contains this")
    asked = parser.parse_args(arguments)
    with measuring(asked.release, all_features=asked.all_features) as (mutants, ask):
        if asked.by_hand:
            described = readers.parse_toml(BY_HAND.read_text(encoding="utf-8")).get(asked.release, [])
            return _report(chosen(mutants, described), ask, LIMIT_BY_HAND)
        return _report(_draw(mutants, asked.seed, asked.count, asked.only), ask, LIMIT)


def _report(drawn: Sequence[Mutant], ask: Ask, limit: float) -> int:
    equivalents = readers.parse_toml(EQUIVALENTS.read_text(encoding="utf-8"))
    killed = alike = 0
    for number, mutant in enumerate(drawn, 1):
        name = f"{mutant.upstream}:{mutant.mutation.function} ({mutant.mutation.kind})"
        if mutant.digest in equivalents:
            alike += 1
            print(f"{number}. equivalent {name}: {equivalents[mutant.digest]}", flush=True)
            continue
        start = time.perf_counter()
        found = ask(mutant)
        print(f"{time.perf_counter() - start:.1f} s of {len(mutant.cases)} cases", file=sys.stderr)
        killed += bool(found)
        print(f"{number}. {f'killed by {found}' if found else 'SURVIVED'} {name}", flush=True)
        if not found:
            print(f"{mutant.diff()}\n    # {mutant.path}:{mutant.mutation.line}, {mutant.digest}", flush=True)
    total = len(drawn) - alike
    share = killed / max(total, 1)
    print(f"\n{killed} of {total} killed ({share:.0%}); {alike} more change nothing that is computed")
    return int(share < limit)


def _draw(mutants: Sequence[Mutant], seed: int, count: int, only: str) -> list[Mutant]:
    """Draw lines, and of each one mutation, so that a long line has no more of them than a short one."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for mutant in mutants:
        if only in f"{mutant.upstream}:{mutant.mutation.function}":
            by_line.setdefault((mutant.path, mutant.mutation.line), []).append(mutant)
    chance = random.Random(seed)
    drawn: list[Mutant] = []
    for line in chance.sample(sorted(by_line), len(by_line)):
        mutant = chance.choice(by_line[line])
        if len(drawn) < count and parses(mutant.mutation.apply(mutant.text)):
            drawn.append(mutant)
    return drawn


def chosen(mutants: Sequence[Mutant], described: Sequence[tuple[str, str, str, int]]) -> list[Mutant]:
    """Return mutants by function, kind, new text, and which of these it is in the order of the text.

    Raises:
        LookupError: no line that a case runs fits a description.
    """
    found = []
    for function, kind, new, number in described:
        fitting = [
            mutant
            for mutant in mutants
            if f"{mutant.upstream}:{mutant.mutation.function}" == function
            and (mutant.mutation.kind, mutant.mutation.new) == (kind, new)
        ]
        if len(fitting) < number:
            raise LookupError(f"{function} has {len(fitting)} times {kind} {new!r}, not {number}")
        found.append(fitting[number - 1])
    return found


@contextlib.contextmanager
def measuring(release: str, *, all_features: bool = False) -> Iterator[tuple[list[Mutant], Ask]]:
    """Yield a release's mutants, and what says which case kills one ("" where none does)."""
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder, _started(release, all_features, folder) as started:
        yield started


@contextlib.contextmanager
def _started(release: str, all_features: bool, place: str) -> Iterator[tuple[list[Mutant], Ask]]:
    """Make a project, run upstream's side, and start the process that runs the project's; it ends with the context."""
    folder, manifest = Path(place), releases.load(release)
    features = tuple(feature.name for feature in manifest.features if feature.name in FEATURES)
    more = {"algorithm": "ppo", "features": features} if all_features else {}
    root = make_project(folder / "project", release=release, **more)
    subject = subjects.read_project(root)
    source = open_source(manifest.pin)
    upstream = parity.run_sides(subject, source, manifest.fixes, sys.executable, folder, ["upstream"])["upstream"]
    scratch = folder / "run"
    scratch.mkdir()
    job = {
        **parity.make_job(subject, source, "vendored", root, scratch),
        "upstream": upstream["results"],
        "unmet": parity.map_unmatched_fixes(subject, manifest, upstream["met"]),
    }
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.mutating", str(folder / "job.json")]
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**interpreter.make_environment(scratch), "PYTHONPATH": str(Path(__file__).parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None

    def tell(message: dict[str, Any]) -> dict[str, Any]:
        print(json.dumps(message), file=process.stdin, flush=True)
        line = process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError(interpreter.read_tail(folder / "log.txt"))
        answer: dict[str, Any] = json.loads(line)
        return answer

    try:
        traced = tell({"trace": True})
        if "ran" not in traced or traced["wrong"]:
            raise RuntimeError(f"the project itself is not as upstream: {traced.get('wrong', traced)}")
        seconds = traced["seconds"]

        def ask(mutant: Mutant) -> str:
            limit = 30 + 5 * sum(seconds[case] for case in mutant.cases)
            new = mutant.mutation.apply(mutant.text).decode()
            path = str(root / mutant.path)
            said = tell({"path": path, "text": new, "cases": mutant.cases, "limit": limit})
            if said.get("alone"):
                raise RuntimeError(f"{said['alone']} depends on other cases: it differs without any mutant")
            return str(said["killed"])

        yield _mutants(subject, traced["ran"]), ask
    finally:
        process.kill()
        process.wait()


def _mutants(subject: subjects.ProjectFiles, ran: dict[str, dict[str, list[int]]]) -> list[Mutant]:
    """Return every mutation of a line that a case runs, and of defaults that it has been given."""
    files = {str((subject.root / file.path).resolve()): file for file in subject.vendored}
    inside = {path: _inside(file.text) for path, file in files.items()}
    using: dict[str, set[str]] = {path: set() for path in files}
    importing: dict[str, set[str]] = {}
    by_line: dict[tuple[str, int], set[str]] = {}
    for case, executed in ran.items():
        for path, lines in executed.items():
            for line in lines:
                by_line.setdefault((path, line), set()).add(case)
                if line in inside[path]:
                    using[path].add(case)
                else:
                    importing.setdefault(case, set()).add(path)
    found = []
    for path, file in files.items():
        text = Path(path).read_bytes()
        for mutation in mutations(text):
            cases = by_line.get((path, mutation.line), set()) if mutation.line in inside[path] else set()
            if mutation.whole:
                body = [line for line, name in inside[path].items() if name == mutation.function]
                given = set().union(*(by_line.get((path, line), ()) for line in body))
                cases = given if mutation.kind == "default" else using[path]
                cases = {*cases, f"declared.{file.upstream}"} if cases else set()
            elif cases <= importing.keys():
                # An import has run it: whatever needs what was imported is concerned.
                cases = cases.union(*(using[other] for case in cases for other in importing[case]))
            if cases:
                found.append(Mutant(file.path, file.upstream, text, mutation, tuple(sorted(cases))))
    return found


def _inside(text: str) -> dict[int, str]:
    """Return which function, "Class.method", the lines of bodies are of."""
    found: dict[int, str] = {}

    def look(body: Sequence[ast.stmt], above: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                look(node.body, f"{above}{node.name}.")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
                found.update(dict.fromkeys(lines, f"{above}{node.name}"))

    look(ast.parse(text).body, "")
    return found
