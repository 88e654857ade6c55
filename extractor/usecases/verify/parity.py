"""Run cases on upstream and project; compare them bit for bit."""

import ast
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from extractor.pipeline.index.syntax import list_definitions
from extractor.pipeline.source import Source
from extractor.usecases.verify import interpreter
from extractor.usecases.verify.fixed_upstream import write_upstream
from extractor.usecases.verify.hashes import find_edited_paths
from extractor.usecases.verify.project_files import ProjectFiles
from extractor.usecases.verify.report import Check, CheckStatus
from extractor.values import readers
from extractor.values.errors import CheckFailed
from extractor.values.manifest import Fix, Manifest
from extractor.values.wording import count_noun

TIMEOUT = 1200.0
SIDES = {"upstream": "upstream's own code", "vendored": "the project's code"}
_PLACES = ("upstream", "here")
Node = list[Any]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


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


def check_parity(subject: ProjectFiles, source: Source, manifest: Manifest, python: str) -> tuple[Check, ...]:
    """Run and compare both sides; return parity and coverage checks."""
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        try:
            results = run_sides(subject, source, manifest.fixes, python, Path(folder))
        except CheckFailed as error:
            return (Check("parity", CheckStatus.FAILED, error.message, tuple(error.hint.splitlines())),)
    upstream, vendored = results["upstream"], results["vendored"]
    cases = compare(upstream["results"], vendored["results"], map_unmatched_fixes(subject, manifest, upstream["met"]))
    return _make_parity_check(subject, cases, upstream["stubbed"], upstream["met"]), check_coverage(
        subject, vendored["lines"]
    )


def map_unmatched_fixes(subject: ProjectFiles, manifest: Manifest, given: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map upstream modules to named fixes that upstream's side does not get."""
    met = {*given, *(fix.id for fix in manifest.fixes if fix.parity == "exact")}
    return {file.upstream: tuple(fix for fix in file.fixes if fix not in met) for file in subject.vendored}


def run_sides(
    subject: ProjectFiles,
    source: Source,
    fixes: Iterable[Fix],
    python: str,
    folder: Path,
    sides: Collection[str] = ("upstream", "vendored"),
) -> dict[str, dict[str, Any]]:
    """Return by side what every case returned there, and which fixes upstream got."""
    met = write_upstream(subject, source, fixes, folder / "upstream")
    jobs = {SIDES[side]: make_job(subject, source, side, folder / "upstream", folder) for side in sides}
    results = interpreter.run_jobs(python, "parity", jobs, folder, TIMEOUT)
    return {side: {**results[SIDES[side]], "met": met} for side in sides}


def make_job(subject: ProjectFiles, source: Source, side: str, upstream: Path, scratch: Path) -> dict[str, Any]:
    """Return the driver's job for one side."""
    files = {str((subject.root / file.path).resolve()): file for file in subject.vendored}
    return {
        "side": side,
        "root": str((subject.root if side == "vendored" else upstream).resolve()),
        "trace": list(files) if side == "vendored" else [],
        "modules": {file.upstream: file.module for file in files.values() if file.upstream},
        "declared": find_declared_by_both(subject, source),
        "dropped": [name for file in files.values() for name in file.dropped],
        "scratch": str(scratch.resolve()),
    }


def find_declared_by_both(subject: ProjectFiles, source: Source) -> dict[str, list[str]]:
    """Map upstream modules to names ("Class.method") that both sides declare."""
    declared = {}
    for file in subject.vendored:
        if file.upstream_path in source.files:
            theirs = readers.parse_python(source.read(file.upstream_path))
            declared[file.upstream] = sorted({*_list_declared(file.tree.body)} & {*_list_declared(theirs.body)})
    return {module: names for module, names in declared.items() if names}


def _list_declared(body: Sequence[ast.stmt], above: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield f"{above}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from _list_declared(node.body, f"{above}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from (f"{above}{name}" for name in names if not name.startswith("__"))


def compare(
    upstream: Mapping[str, Mapping[str, Any]],
    vendored: Mapping[str, Mapping[str, Any]],
    unmet: Mapping[str, tuple[str, ...]],
) -> tuple[Case, ...]:
    """Compare the results of both sides, case by case.

    Args:
        upstream, vendored: Results by case name: {"value": node}, {"error": text} or {"absent": what is missing}, with
            the case's "module".
        unmet: Named fixes by upstream module that upstream's side does not get.
    """
    whole = {name for name, result in vendored.items() if "absent" in result and "[" not in name}
    families = {name.partition("[")[0] for name, result in upstream.items() if "value" in result}
    cases = []
    for name in {**upstream, **vendored}:
        theirs, ours = upstream.get(name), vendored.get(name)
        module = (ours or theirs or {}).get("module", "")
        if ours is not None:
            verdict, note = _compare_case(theirs, ours, ", ".join(unmet.get(module, ())))
            if theirs is None and "error" in ours and name in families:  # its module or its list of cases fails
                verdict, note = ParityVerdict.FAILS_HERE, ours["error"]
            cases.append(Case(name, module, verdict, note))
        elif name.partition("[")[0] not in whole:
            cases.append(Case(name, module, ParityVerdict.ABSENT, "upstream registers it, the project does not"))
    return tuple(cases)


def _compare_case(theirs: Mapping[str, Any] | None, ours: Mapping[str, Any], fixes: str) -> tuple[ParityVerdict, str]:
    if "absent" in ours:
        return ParityVerdict.ABSENT, ours["absent"]
    if theirs is not None and "absent" in theirs and "error" in ours:
        return ParityVerdict.ABSENT, theirs["absent"]
    if theirs is None or "absent" in theirs:
        return ParityVerdict.OURS_ONLY, "the project has it, upstream does not"
    if "error" in ours:
        return (ParityVerdict.FAILS_ALIKE if "error" in theirs else ParityVerdict.FAILS_HERE), ours["error"]
    if "error" in theirs:
        return (ParityVerdict.FIX, fixes) if fixes else (ParityVerdict.UNAVAILABLE, theirs["error"])
    note = find_difference(theirs["value"], ours["value"])
    if note is None:
        return ParityVerdict.EQUAL, ""
    return (ParityVerdict.FIX, fixes) if fixes else (ParityVerdict.DIFFERS, note)


def _make_parity_check(subject: ProjectFiles, cases: tuple[Case, ...], stubbed: list[str], met: list[str]) -> Check:
    verdicts = list(ParityVerdict)
    places = {file.upstream: file.path for file in subject.vendored}
    edited = find_edited_paths(subject) & {*places.values()}
    details = []
    for case in sorted(cases, key=lambda case: (case.verdict not in BAD, verdicts.index(case.verdict), case.name)):
        if case.verdict is not ParityVerdict.EQUAL:
            path = places.get(case.module, "")
            mark = f" ({path} is edited)" if case.verdict in BAD and path in edited else ""
            note = f": {' '.join(case.note.split())[:300]}" if case.note else ""
            details.append(f"{case.verdict.value}: {case.name}{note}{mark}")
    details += [f"applied to upstream as well: fix {fix}" for fix in met]
    others = [name for name in stubbed if name != "ray"]
    if others:
        details.append(f"stand-ins for what upstream imports and this Python lacks: {', '.join(others)}")
    counts = {verdict: sum(case.verdict is verdict for case in cases) for verdict in verdicts}
    bad, equal = any(counts[verdict] for verdict in BAD), counts.pop(ParityVerdict.EQUAL)
    rest = "".join(f", {count} {verdict.value}" for verdict, count in counts.items() if count)
    if bad and edited:
        rest += f"; {count_noun(len(edited), 'vendored file')} edited"
    status = CheckStatus.FAILED if bad or not equal else CheckStatus.OK
    return Check("parity", status, f"{count_noun(equal, 'case')} equal bit for bit{rest}", tuple(details))


def check_coverage(subject: ProjectFiles, executed: Mapping[str, Sequence[int]]) -> Check:
    """Report which functions and lines the cases executed.

    Args:
        executed: Lines that were run by absolute path.
    """
    details = []
    lines = run = functions = left_out = 0
    for file in subject.vendored:
        done = set(executed.get(str((subject.root / file.path).resolve()), ()))
        defined = list_definitions(file.tree.body)
        bodies = [(name, {*_list_body_lines(node)}) for name, node in defined if isinstance(node, _Function)]
        every = set().union(*(body for _, body in bodies))
        if not every:
            continue
        # Dunders are public as well.
        public = [(name, body) for name, body in bodies if body and not re.search(r"(^|\.)_(?!_)", name)]
        left = [name for name, body in public if not body & done]
        share = f"{len(every & done) / len(every):.0%}"
        line = f"{file.path}: {len(public) - len(left)} of {len(public)} functions, {share} of lines"
        details.append(line + (f"; not covered: {', '.join(left)}" if left else ""))
        lines, run = lines + len(every), run + len(every & done)
        functions, left_out = functions + len(public), left_out + len(left)
    summary = (
        f"the cases ran {run / max(lines, 1):.0%} of the lines of the functions in"
        f" {count_noun(len(details), 'vendored file')}, in {functions - left_out} of"
        f" {count_noun(functions, 'public function')}; the rest was not compared"
    )
    return Check("coverage", CheckStatus.REPORTED, summary, tuple(details))


def _list_body_lines(node: _Function) -> Iterator[int]:
    """Yield lines of statements that execute; not `pass` or strings."""
    for child in ast.walk(node):
        if isinstance(child, ast.stmt) and child is not node:
            text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if not text and not isinstance(child, (ast.Pass, ast.Global, ast.Nonlocal)):
                yield child.lineno


# The difference of two results


def find_difference(upstream: Node, vendored: Node, sides: tuple[str, str] = _PLACES) -> str | None:
    """Describe the first difference of two nodes; None if bit-identical."""
    if repr(upstream) == repr(vendored):  # which tells 0.0 from -0.0
        return None
    return next(_find_differences(upstream, vendored, "", sides), "differs")


def _find_differences(left: Node, right: Node, path: str, sides: tuple[str, str]) -> Iterator[str]:
    if repr(left) == repr(right):
        return
    where = f"{path.lstrip('.')}: " if path else ""
    kinds = left[0], right[0]
    if kinds == ("t", "t") and left[1:3] == right[1:3]:
        yield where + _compare_tensors(left, right, sides)
    elif kinds == ("s", "s") and left[1] == right[1] and len(left[2]) == len(right[2]):
        for index, (one, other) in enumerate(zip(left[2], right[2], strict=True)):
            yield from _find_differences(one, other, f"{path}[{index}]", sides)
    elif kinds == ("d", "d"):
        theirs, ours = dict(map(tuple, left[1])), dict(map(tuple, right[1]))
        for key in sorted({*ours, *theirs}):
            if key not in ours:
                yield f"{where}{key} is missing {sides[1]}"
            elif key not in theirs:
                yield f"{where}{key} is there {sides[1]}, and not {sides[0]}"
            else:
                yield from _find_differences(theirs[key], ours[key], f"{path}.{key}", sides)
        if list(ours) != list(theirs):
            yield f"{where}the order of the keys"
    else:
        yield f"{where}{_shorten(left)} {sides[0]}, {_shorten(right)} {sides[1]}"


def _compare_tensors(left: Node, right: Node, sides: tuple[str, str]) -> str:
    pairs = [pair for pair in zip(left[3], right[3], strict=True) if repr(pair[0]) != repr(pair[1])]
    if len(left[3]) == 1:
        return f"{left[3][0]!r} {sides[0]}, {right[3][0]!r} {sides[1]}"
    apart = [abs(one - other) for one, other in pairs if isinstance(one, (int, float))]
    most = max((distance for distance in apart if distance == distance), default=float("nan"))
    return f"{_shorten(left)}: {len(pairs)} of {len(left[3])} elements differ, by at most {most:.3g}"


def _shorten(node: Node) -> str:
    kind, value = node[:2]
    if kind == "t":
        return f"{value.rpartition('.')[2]}{node[2]}"
    if kind == "s":
        return f"{value} of {len(node[2])}"
    if kind == "d":
        fields = dict(map(tuple, value))
        if "raises" in fields:
            return f"{fields['raises'][1]}: {fields['message'][1]}"[:200]
        return f"{{{', '.join(sorted(fields))}}}"[:120]
    return repr(value)[:120]
