"""Write an upgrade down for a reviewer, as Markdown."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from extractor.pipeline.merge.files import split_pieces
from extractor.pipeline.merge.pieces import Unsupported, find_changed
from extractor.pipeline.plan import Verdict
from extractor.pipeline.source import Source
from extractor.project.lock import Lock
from extractor.usecases.changes import Changes
from extractor.usecases.owner_code import OwnerCode, list_imported
from extractor.usecases.upgrade import Upgrade
from extractor.usecases.verify import closed_imports, hashes, interpreter, parity, project_files
from extractor.usecases.verify.parity import find_difference
from extractor.values import releases
from extractor.values.fingerprint import is_equal_but_for_layout
from extractor.values.tree import FileKind

_EDITS = {
    Verdict.CONFLICT: "edit in conflict",
    Verdict.ORPHAN: "edit parked",
    Verdict.MERGE: "edit carried",
}
_SHOWN = 40
_COMPUTES = ("body", "signature")


def review(project: Path, planned: Upgrade, about: Changes | None, numbers: Sequence[str] = ()) -> str:
    """Return the upgrade as Markdown.

    Args:
        project: Its directory; where the upgrade is written, its files are checked.
        about: What upstream changed; None where that cannot be told.
        numbers: From `compare_releases`; empty where that was not asked for.
    """
    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in _make_rows(planned, about)]
    table = [
        "| what | where | why |",
        "|---|---|---|",
        *(f"| {what} | `{where}` | {why} |" for what, where, why in rows),
    ]
    lines = [f"# {planned.title}", "", *(table if rows else ["Nothing of yours is touched."])]
    if about is not None:
        computing = [item.place for item in about.symbols if item.change.value in _COMPUTES]
        first = [f"`{place.name}`" for place in computing if "/algorithms/" in place.path and place.kind == "function"]
        rest = f"{len(computing) - len(first)} more (`vextract changes {about.old} {about.new} -v`)"
        lines += ["", f"May change numbers: {', '.join([*first, rest])}."]
        keys = [f"`{item.key}` {item.old} -> {item.new}" for item in about.project_keys.defaults]
        lines += [f"Other defaults: {', '.join(keys)}."] if keys else []
    lines += ["", *(numbers or ["Numbers of the two releases: not compared (`--numbers` does it)."])]
    made = project_files.read_project(project)
    if planned.counts["conflict"]:
        checked = "not yet, there are conflicts to resolve"
    elif made.lock != planned.new:
        checked = "not yet, nothing was written"
    else:
        checks = closed_imports.check_imports(made, None), closed_imports.check_ray_free(made), hashes.check_base(made)
        checked = "; ".join(f"{check.name} {check.status.value}" for check in checks)
    lines += ["", f"Checked, without running any of the project: {checked}."]
    lines += [
        "Next: `make setup`, `make test` and `vextract verify`, which compares numbers with upstream's.",
        "To undo: close this before the merge; after it, `git revert -m 1 MERGE_COMMIT`, or"
        f" `vextract upgrade --to {planned.old.options.verl}`.",
    ]
    return "\n".join(lines) + "\n"


def _find_touched(code: Sequence[OwnerCode], lock: Lock) -> dict[str, str]:
    """Map symbols that the owner edited or imports to the reason."""
    emitted_hooks = {file.path: file.sha256 for file in lock.files if file.kind is FileKind.HOOK}
    own = [item for item in code if sha256(item.text.encode()).hexdigest() != emitted_hooks.get(item.path)]
    touched = dict.fromkeys(list_imported(own, lock), "you import it")
    for item in code:
        if item.path.endswith(".py") and item.emitted is not None and is_equal_but_for_layout(item.emitted, item.text):
            continue
        with suppress(Unsupported):
            pieces = [split_pieces(item.path, text) for text in (item.emitted, item.text) if text is not None]
            names = {name.partition(" / ")[0] for name in find_changed(*pieces)} if len(pieces) > 1 else ()
            touched |= {f"{item.path}: {name}": "you edited it" for name in sorted(names)}
    return touched


def _make_rows(planned: Upgrade, about: Changes | None) -> Iterator[tuple[str, str, str]]:
    mine = _find_touched(planned.code, planned.old)
    for item in about.symbols if about is not None else ():
        places = [place for place in (item.old, item.new) if place is not None]
        names = [(f"{place.path}: {place.name}", place.symbol) for place in places]
        keys = [key for name, symbol in names for key in (symbol, f"{planned.old.options.package}/{name}", name)]
        why = "; ".join(dict.fromkeys(mine[key] for key in reversed(keys) if key in mine))
        if why and item.change.value not in ("unchanged", "wording"):
            yield (
                f"upstream: {item.change.value}",
                f"{item.place.path}: {item.place.name}",
                "; ".join((why, *item.details[:3])),
            )
    for problem in planned.problems:
        yield "to change", f"{problem.file}:{problem.line} {problem.name}", problem.problem
    for key in planned.stale:
        yield "to change", f"{key.file}:{key.line}", key.problem
    for moved in planned.settings.moved:
        yield "setting moved", moved.key, f"now {moved.new_key} in {moved.new_file}"
    for lost in planned.settings.lost:
        yield "setting lost", lost.key, f"{lost.value}: {planned.labels.theirs} has no such setting"
    for verdict, said in _EDITS.items():
        for action in planned.plan.actions:
            if action.verdict is verdict:
                yield said, action.path, action.note or action.reason.value


def compare_releases(project: Path, old: Source, new: Source) -> list[str]:
    """Run the cases of a project's vendored modules on two releases; say which results moved.

    Only upstream's code runs, with the project's Python. Of cases about one function, or of one family that differ
    alike, only the first is named.

    Raises:
        CheckFailed: the project has no Python with its requirements, or upstream's code does not run there.
    """
    subject = project_files.read_project(project)
    python = interpreter.choose(project, None)
    before, after = (_compute(subject, source, python) for source in (old, new))
    both = [name for name, case in before.items() if _is_computed(case) and _is_computed(after.get(name, {}))]
    first: dict[str, tuple[str, str]] = {}
    for name in both:
        how = find_difference(before[name]["value"], after[name]["value"], (f"in {old.release}", f"in {new.release}"))
        if how is not None:
            first.setdefault(name.partition("/")[0].rstrip("]"), (name, how))
    once: dict[tuple[str, str], str] = {}
    for name, how in first.values():
        once.setdefault((name.partition("[")[0], how), name)
    end = ":" if once else ": none."
    said = [f"- `{name}`: {how}" for (_, how), name in once.items()]
    more = [f"- and {len(said) - _SHOWN} more"] if len(said) > _SHOWN else []
    return [f"Numbers that moved, by {len(both)} cases that upstream computes in both{end}", *said[:_SHOWN], *more]


def _is_computed(case: Mapping[str, Any]) -> bool:
    """Tell whether a case has a result other than an exception."""
    value = case.get("value")
    return value is not None and not (value[0] == "d" and "raises" in dict(map(tuple, value[1])))


def _compute(subject: project_files.ProjectFiles, source: Source, python: str) -> dict[str, Any]:
    """Return the cases of the vendored modules, by name."""
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        fixes = releases.load(source.release).fixes
        results = parity.run_sides(subject, source, fixes, python, Path(folder), ("upstream",))["upstream"]["results"]
    vendored = {file.upstream for file in subject.vendored}
    return {name: case for name, case in results.items() if case["module"] in vendored}
