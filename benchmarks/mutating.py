"""Run the cases of `vextract verify` on mutants of a project, each in a fork of one warm process: JOB.json."""

import contextlib
import json
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from extractor.usecases.verify.driver import run
from extractor.usecases.verify.driver.sides import Side
from extractor.usecases.verify.parity import BAD, Case, compare

Results = dict[str, dict[str, Any]]


def main() -> None:
    """Answer each line of the job's input: {"trace": true}, or {"path", "text", "cases", "limit"}."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    families = run.load_cases(job)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        said = _forked(lambda: _traced(job, families), 1200.0) if "trace" in asked else _mutant(job, families, asked)
        print(json.dumps(said), file=answers, flush=True)


def _cases(families: list[Any], side: Side, chosen: set[str] | None) -> Iterator[tuple[str, Results]]:
    """Yield a family's name and its results, one case at a time."""
    for family in families:
        if chosen is None or any(name.partition("[")[0] == family.name for name in chosen):
            yield from run.iterate_family(family, side, chosen)


def _traced(job: dict[str, Any], families: list[Any]) -> dict[str, Any]:
    """Run every case; returns what each has run, in which time, and those that are not as upstream's."""
    side = run.open_side(job)
    trace = run.LineTrace(job["trace"])
    ran: dict[str, dict[str, list[int]]] = {}
    seconds: dict[str, float] = {}
    wrong: list[str] = []
    trace.start()
    start = time.perf_counter()
    for name, results in _cases(families, side, None):
        wrong += [f"{name}: a name that two cases have"] * (name in ran)
        ran[name] = {file: sorted(lines) for file, lines in trace.lines.items() if lines}
        for lines in trace.lines.values():
            lines.clear()
        seconds[name] = time.perf_counter() - start
        wrong += [f"{case.name}: {case.note}" for case in _wrong(job, results)]
        start = time.perf_counter()
    trace.stop()
    return {"ran": ran, "seconds": seconds, "wrong": wrong}


def _wrong(job: dict[str, Any], results: Results) -> list[Case]:
    unmet = {name: tuple(fixes) for name, fixes in job["unmet"].items()}
    upstream = {
        name: said for name, said in job["upstream"].items() if name in results or name.partition("[")[0] in results
    }
    return [case for case in compare(upstream, results, unmet) if case.verdict in BAD]


def _mutant(job: dict[str, Any], families: list[Any], asked: dict[str, Any]) -> dict[str, Any]:
    path, chosen = Path(asked["path"]), set(asked["cases"])
    original = path.read_text(encoding="utf-8")

    def try_cases() -> dict[str, Any]:
        side = run.open_side(job)
        for _, results in _cases(families, side, chosen):
            wrong = _wrong(job, results)
            if wrong:
                return {"killed": wrong[0].name}
        return {"killed": ""}

    path.write_text(asked["text"], encoding="utf-8")
    try:
        found = _forked(try_cases, asked["limit"])
    finally:
        path.write_text(original, encoding="utf-8")
    if found["killed"] in chosen:
        # That the case is by itself as upstream's, without those before it, is what its word is worth.
        chosen -= {name for name in chosen if name.partition("[")[0] != found["killed"].partition("[")[0]}
        found["alone"] = _forked(try_cases, asked["limit"])["killed"]
    return found


def _forked(function: Callable[[], dict[str, Any]], limit: float) -> dict[str, Any]:
    """Call a function in a child; one that dies, or takes too long, has killed its mutant as it would have verify."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os.close(reader)
        sys.dont_write_bytecode = True
        try:
            found = function()
        except BaseException as error:
            found = {"killed": f"{type(error).__name__}: {error}"}
        with os.fdopen(writer, "wb") as output:
            pickle.dump(found, output)
        os._exit(0)
    os.close(writer)
    data, end = b"", time.monotonic() + limit
    with os.fdopen(reader, "rb") as result:
        while select.select([result], [], [], max(end - time.monotonic(), 0))[0]:
            piece = os.read(result.fileno(), 1 << 20)
            if not piece:
                break
            data += piece
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found: dict[str, Any] = pickle.loads(data) if data else {"killed": "it died, or took too long"}
    return found


if __name__ == "__main__":
    main()
