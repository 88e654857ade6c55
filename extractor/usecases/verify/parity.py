"""Run the same cases on upstream's code and on the project's, and compare bit for bit."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from extractor.pipeline.source import Source
from extractor.usecases.verify import interpreter
from extractor.usecases.verify.compare import difference
from extractor.usecases.verify.coverage import check_coverage, measure, traced_files
from extractor.usecases.verify.declared import declared_by_both
from extractor.usecases.verify.hashes import edited_paths
from extractor.usecases.verify.report import Check, CheckStatus, counted
from extractor.usecases.verify.subject import Subject
from extractor.values.errors import CheckFailed
from extractor.values.manifest import Manifest

TIMEOUT = 1200.0


class ParityVerdict(str, Enum):
    """Says how one case ended."""

    EQUAL = "equal"
    DIFFERS = "differs"
    FAILS_HERE = "fails here only"
    FIX = "explained by a named fix"
    UNAVAILABLE = "fails upstream"
    FAILS_ALIKE = "fails on both"
    OURS_ONLY = "not upstream"
    ABSENT = "not vendored"


BAD = (ParityVerdict.DIFFERS, ParityVerdict.FAILS_HERE)


@dataclass(frozen=True)
class Case:
    """One compared case.

    Attributes:
        name: "core_algos.advantage[grpo/outcome]".
        module: The upstream module it is about.
        verdict: How it ended.
        note: What differs, or why it could not be compared.
    """

    name: str
    module: str
    verdict: ParityVerdict
    note: str = ""


def check_parity(subject: Subject, source: Source, manifest: Manifest, python: str) -> tuple[Check, ...]:
    """Run both sides and compare; the second check says what the cases have covered."""
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        try:
            results = run_sides(subject, source, python, Path(folder))
        except CheckFailed as error:
            return (Check("parity", CheckStatus.FAILED, error.message, tuple(error.hint.splitlines())),)
    parity = {fix.id: fix.parity for fix in manifest.fixes}
    unmet = {file.upstream: tuple(fix for fix in file.fixes if not parity.get(fix)) for file in subject.vendored}
    upstream, vendored = results["upstream"], results["vendored"]
    cases = compare(upstream["results"], vendored["results"], unmet, set(parity))
    coverage = check_coverage(measure(subject, vendored["lines"]))
    return _check(
        subject, cases, upstream["stubbed"], [fix for fix in subject.fixes if parity.get(fix) == "met"]
    ), coverage


def run_sides(
    subject: Subject, source: Source, python: str, folder: Path, sides: Collection[str] = ("upstream", "vendored")
) -> dict[str, dict[str, Any]]:
    """Return by side what every case returned there."""
    upstream_root = folder / "upstream"
    source.materialise(upstream_root)
    declared = declared_by_both(subject, source)
    running = {}
    for side in sides:
        root = upstream_root if side == "upstream" else subject.root
        scratch = folder / f"run-{side}"
        scratch.mkdir()
        running[side] = interpreter.start(python, "parity", job_of(subject, declared, side, root, scratch), scratch)
    results = {}
    try:
        for side, started in running.items():
            try:
                results[side] = interpreter.finish(started, TIMEOUT)
            except CheckFailed as error:
                what = "upstream's own code" if side == "upstream" else "the project's code"
                raise CheckFailed(f"running {what} {error.message}", hint=error.hint) from None
    finally:
        for started in running.values():
            interpreter.stop(started)
    return results


def job_of(subject: Subject, declared: dict[str, list[str]], side: str, root: Path, scratch: Path) -> dict[str, Any]:
    """Return what the driver is told: which side it runs, where that is, and what the project has of upstream."""
    return {
        "side": side,
        "root": str(root.resolve()),
        "trace": traced_files(subject) if side == "vendored" else [],
        "modules": {file.upstream: file.module for file in subject.vendored if file.upstream},
        "fixes": list(subject.fixes),
        "declared": declared,
        "dropped": [name for file in subject.vendored for name in file.dropped],
        "scratch": str(scratch.resolve()),
    }


def compare(
    upstream: Mapping[str, Mapping[str, Any]],
    vendored: Mapping[str, Mapping[str, Any]],
    unmet: Mapping[str, tuple[str, ...]],
    known: Collection[str],
) -> tuple[Case, ...]:
    """Compare the results of both sides, case by case.

    Args:
        upstream, vendored: Results by case name: {"value": node}, {"error": text} or {"absent": what is missing}, with
            the case's "module" and "fixes".
        unmet: Named fixes by upstream module for which the driver has no counterpart.
        known: Every named fix of the release.
    """
    whole = {name for name, result in vendored.items() if "absent" in result and "[" not in name}
    families = {name.partition("[")[0] for name, result in upstream.items() if "value" in result}
    found = []
    for name in {**upstream, **vendored}:
        theirs, ours = upstream.get(name), vendored.get(name)
        module = (ours or theirs or {}).get("module", "")
        if ours is None:
            family = name.partition("[")[0]
            if family not in whole:
                found.append(Case(name, module, ParityVerdict.ABSENT, "upstream registers it, the project does not"))
        else:
            fixes = [fix for fix in ours["fixes"] if fix in known]
            verdict, note = _verdict(theirs, ours, ", ".join((*fixes, *unmet.get(module, ()))))
            if theirs is None and "error" in ours and name in families:  # its module or its list of cases fails
                verdict, note = ParityVerdict.FAILS_HERE, ours["error"]
            found.append(Case(name, module, verdict, note))
    return tuple(found)


def _verdict(theirs: Mapping[str, Any] | None, ours: Mapping[str, Any], fixes: str) -> tuple[ParityVerdict, str]:
    if "absent" in ours:
        return ParityVerdict.ABSENT, ours["absent"]
    if theirs is None or "absent" in theirs:
        return ParityVerdict.OURS_ONLY, "the project has it, upstream does not"
    if "error" in theirs:
        if "error" in ours:
            return ParityVerdict.FAILS_ALIKE, ours["error"]
        return (ParityVerdict.FIX, fixes) if fixes else (ParityVerdict.UNAVAILABLE, theirs["error"])
    if "error" in ours:
        return ParityVerdict.FAILS_HERE, ours["error"]
    note = difference(theirs["value"], ours["value"])
    if note is None:
        return ParityVerdict.EQUAL, ""
    return (ParityVerdict.FIX, fixes) if fixes else (ParityVerdict.DIFFERS, note)


def _check(subject: Subject, cases: tuple[Case, ...], stubbed: list[str], met: list[str]) -> Check:
    counts = {verdict: sum(case.verdict is verdict for case in cases) for verdict in ParityVerdict}
    bad = [case for case in cases if case.verdict in BAD]
    edited = edited_paths(subject)
    places = {file.upstream: file.path for file in subject.vendored}
    details = []
    for case in sorted(
        cases, key=lambda case: (case.verdict not in BAD, list(ParityVerdict).index(case.verdict), case.name)
    ):
        if case.verdict is not ParityVerdict.EQUAL:
            path = places.get(case.module, "")
            mark = f" ({path} is edited)" if case.verdict in BAD and path in edited else ""
            note = f": {' '.join(case.note.split())[:300]}" if case.note else ""
            details.append(f"{case.verdict.value}: {case.name}{note}{mark}")
    details += [f"met on upstream's side: fix {fix}" for fix in met]
    others = [name for name in stubbed if name != "ray"]
    if others:
        details.append(f"stand-ins for what upstream imports and this Python lacks: {', '.join(others)}")
    equal = counts.pop(ParityVerdict.EQUAL)
    rest = "".join(f", {count} {verdict.value}" for verdict, count in counts.items() if count)
    failed = bool(bad) or not equal
    if bad and edited:
        rest += f"; {counted(len(edited), 'vendored file')} edited"
    summary = f"{counted(equal, 'case')} equal bit for bit{rest}"
    return Check("parity", CheckStatus.FAILED if failed else CheckStatus.OK, summary, tuple(details))
