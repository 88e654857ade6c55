"""Run upstream's own unit tests on upstream's code and on the project's."""

from __future__ import annotations

import ast
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extractor.pipeline.index import Index
from extractor.pipeline.render.words import collect_method_names
from extractor.pipeline.rewrite import rewrite_module
from extractor.pipeline.slicer import KeptModule, Slice, slice_source
from extractor.pipeline.source import Source
from extractor.usecases.verify import interpreter
from extractor.usecases.verify.prune_tests import Pruned, prune
from extractor.usecases.verify.report import Check, CheckStatus, counted
from extractor.usecases.verify.subject import Subject
from extractor.values.errors import CheckFailed
from extractor.values.manifest import Manifest
from extractor.values.modules import module_name

NAME = "upstream tests"
TIMEOUT = 1800.0


def check_upstream_tests(subject: Subject, source: Source, manifest: Manifest, python: str) -> Check:
    """Run those tests whose symbols are all vendored, on both sides. One that passes upstream must pass here."""
    if not source.tests:
        return Check(NAME, CheckStatus.SKIPPED, f"this {source.kind} of verl {source.release} carries no tests")
    files, left_out = _prepare(subject, source, manifest)
    if not files:
        summary = "none of upstream's tests is about what the project has"
        return Check(NAME, CheckStatus.SKIPPED, summary, tuple(_grouped(left_out)))
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        try:
            upstream, vendored = _run(subject, source, python, files, Path(folder))
        except CheckFailed as error:
            return Check(NAME, CheckStatus.FAILED, error.message, tuple(error.hint.splitlines()))
    return _check(files, upstream, vendored, left_out)


def _prepare(
    subject: Subject, source: Source, manifest: Manifest
) -> tuple[dict[str, tuple[Pruned, str]], list[tuple[str, str]]]:
    """Return the files that can run (for upstream, for the project), and the tests left out, a line each."""
    found = slice_source(
        Index(source), manifest, subject.lock.options, collect_method_names(manifest, subject.lock.options)
    )
    files: dict[str, tuple[Pruned, str]] = {}
    left_out: list[tuple[str, str]] = []
    for path, data in sorted(source.tests.items()):
        if not path.rpartition("/")[2].startswith("test_") or not path.endswith(".py"):
            continue
        pruned = prune(path, data.decode("utf-8"), module_name(path), found, found.dropped)
        left_out += [(path, reason) for _, reason in pruned.dropped]
        if not pruned.kept:
            continue
        try:
            files[path] = (pruned, _rewritten(pruned, found, subject))
        except CheckFailed as error:
            left_out += [(path, error.message)] * len(pruned.kept)
    return files, left_out


def _rewritten(pruned: Pruned, found: Slice, subject: Subject) -> str:
    module = KeptModule(
        # The rewrite takes the first part for the name of upstream's package.
        module=f"verl.{module_name(pruned.path)}",
        upstream_path=pruned.path,
        upstream_sha256="",
        target_path=pruned.path,
        source=pruned.text,
        kept=tuple(range(len(ast.parse(pruned.text).body))),
    )
    return rewrite_module(module, found, subject.package, ()).text


def _run(
    subject: Subject, source: Source, python: str, files: Mapping[str, tuple[Pruned, str]], folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    upstream_root = folder / "upstream"
    source.materialise(upstream_root)
    running = {}
    for side, root in (("upstream", upstream_root), ("vendored", subject.root.resolve())):
        place = folder / f"run-{side}"
        for path, (pruned, rewritten) in files.items():
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(pruned.text if side == "upstream" else rewritten, encoding="utf-8")
        job = {"side": side, "root": str(root), "place": str(place), "files": sorted(files)}
        running[side] = interpreter.start(python, "tests", job, place)
    try:
        results = [interpreter.finish(started, TIMEOUT) for started in running.values()]
    finally:
        for started in running.values():
            interpreter.stop(started)
    for result in results:
        if result["error"]:
            raise CheckFailed(result["error"], hint=result["hint"])
    return results[0]["tests"], results[1]["tests"]


def _check(
    files: Mapping[str, tuple[Pruned, str]],
    upstream: Mapping[str, Mapping[str, str]],
    vendored: Mapping[str, Mapping[str, str]],
    left_out: list[tuple[str, str]],
) -> Check:
    broken, both, neither, skipped = [], 0, [], []
    for name in sorted({*upstream, *vendored}):
        theirs = upstream.get(name, {"outcome": "absent", "message": ""})
        ours = vendored.get(name, {"outcome": "absent", "message": "it was not collected"})
        if theirs["outcome"] == "passed" and ours["outcome"] == "passed":
            both += 1
        elif theirs["outcome"] == "passed":
            broken.append(f"passes upstream, {ours['outcome']} here: {name}: {ours['message']}")
        elif "skipped" in (theirs["outcome"], ours["outcome"]):
            skipped.append(f"skips itself: {name}: {theirs['message'] or ours['message']}")
        else:
            neither.append(f"{theirs['outcome']} upstream, {ours['outcome']} here: {name}: {theirs['message']}")
    out = len(left_out)
    total = out + sum(len(pruned.kept) for pruned, _ in files.values())
    summary = (
        f"{counted(both, 'test')} of {counted(len(files), 'file')} pass on upstream and here;"
        f" {len(broken)} pass upstream only, {len(neither)} fail on upstream, {len(skipped)} skip themselves;"
        f" {out} of {counted(total, 'test function')} need what is not vendored"
    )
    status = CheckStatus.FAILED if broken or not both else CheckStatus.OK
    return Check(NAME, status, summary, (*broken, *neither, *skipped, *_grouped(left_out)))


def _grouped(left_out: list[tuple[str, str]]) -> list[str]:
    """Return one line for each file and reason."""
    counts = Counter(left_out)
    return [f"left out: {path}: {counted(count, 'test')}: {reason}" for (path, reason), count in counts.items()]
