"""List the fork's edits with their outcome, and park the rest."""

import ast
import textwrap
from collections.abc import Iterator, Sequence

from extractor.importers.adopt.carry import DROPPED, Carried, explain
from extractor.importers.adopt.differences import Difference
from extractor.importers.adopt.findings import ForkEdit, Outcome
from extractor.importers.adopt.locate import VERSION
from extractor.importers.adopt.target_project import AdoptTarget, Sides, Unit
from extractor.importers.config.templates import read_table
from extractor.importers.python_text.segments import decode, split
from extractor.pipeline.source import Source
from extractor.project.side_files import NOTE_SUFFIX, ORPHANED
from extractor.usecases import diff
from extractor.values.fingerprint import fingerprint_text, load_upstream_parts

NOT_PYTHON = "it is not valid Python"
_CONFIG = "the project's configuration is its own: config/ has your defaults of the settings that it has"


def list_edits(target: AdoptTarget, source: Source, carried: Carried) -> Iterator[ForkEdit]:
    """Yield all edits, sorted by file and in the fork's order."""
    kept = {sides.kept.upstream_path: sides for sides in target.sides.values()}
    for path, data in target.copy.files.items():
        upstream = source.files.get(path)
        if upstream is None or upstream == data or path == VERSION:
            continue
        old, new = decode(upstream), target.read_fork_text(path)
        if old is None or new is None:
            yield _make_file_edit(path, "it is not UTF-8 text", "", "")
        elif old.strip("\n") != new.strip("\n"):
            yield from _list_edits_in(target, path, old, new, kept.get(path), carried)


def park(target: AdoptTarget, source: Source, edits: Sequence[ForkEdit]) -> dict[str, bytes]:
    """Return the fork's files with orphaned edits, each with a note."""
    files = {}
    for path in dict.fromkeys(edit.upstream_path for edit in edits if edit.outcome is Outcome.ORPHANED):
        lost = [edit for edit in edits if edit.upstream_path == path and edit.outcome is Outcome.ORPHANED]
        files[f"{ORPHANED}/{path}"] = target.copy.files[path]
        files[f"{ORPHANED}/{path}{NOTE_SUFFIX}"] = _note(path, source.release, lost)
    return files


def _list_edits_in(
    target: AdoptTarget, path: str, old: str, new: str, sides: Sides | None, carried: Carried
) -> Iterator[ForkEdit]:
    """Yield the edits of one file."""
    names = next((names for start, names in read_table("adopt")["roles"].items() if path.startswith(start)), ())
    places = [name if name == "main.py" else f"{target.package}/{name}" for name in names]
    instead = ", ".join(place for place in places if place in target.files)
    its_own = f"the project has its own instead: {instead}"
    no_file = its_own if instead else "the project does not have this file: nothing that was vendored uses it"
    if not path.endswith(".py"):
        why = _CONFIG if path.endswith((".yaml", ".yml")) else no_file
        yield _make_file_edit(path, "" if fingerprint_text(new) in load_upstream_parts() else why, old, new)
        return
    compared = target.compared.get(path)
    if compared is None:
        try:
            split(new)
        except SyntaxError as error:
            yield _make_file_edit(path, f"{NOT_PYTHON}: {error.msg}, line {error.lineno}", old, new)
        return
    for item in compared.symbols:
        if item.what == "removed" and (sides is None or item.key not in sides.emitted):
            continue
        if item.is_upstreams and not (sides is not None and Unit(sides.module, item.key) in carried.works):
            yield _make_edit(path, item, Outcome.UPSTREAM, "", "")
            continue
        absent = no_file if sides is None else explain(carried, sides, item)
        yield _make_edit(path, item, *_find_outcome(path, sides, its_own if absent == DROPPED and instead else absent))
    works = [work for unit, work in carried.works.items() if sides is not None and unit.module == sides.module]
    used = {(line.local, line.outside or "verl") for work in works for line in work.lines}
    used |= {("annotations", "__future__")} if works else set()
    for imported in compared.imports:
        is_used = (imported.local, imported.module.partition(".")[0]) in used
        missing = no_file if sides is None else None if is_used else "no code that came along uses it"
        origin = f"from {imported.module} import {imported.name}" if imported.name else f"import {imported.module}"
        yield ForkEdit(path, origin, *_find_outcome(path, sides, missing), new=f"{origin}\n")


def _find_outcome(path: str, sides: Sides | None, why: str | None) -> tuple[Outcome, str, str]:
    """Return an edit's outcome, location and reason."""
    if why is None and sides is not None:
        return Outcome.CARRIED, sides.path, ""
    return Outcome.ORPHANED, f"{ORPHANED}/{path}", why or ""


def _make_edit(path: str, item: Difference, outcome: Outcome, where: str, why: str) -> ForkEdit:
    segment = item.new or item.old
    assert segment is not None
    is_statement = segment.node is not None and not segment.is_named
    symbol = ast.unparse(segment.node).partition("\n")[0][:80] if segment.node and is_statement else segment.key
    new = item.new.core if item.new is not None else ""
    is_symbol = segment.node is not None
    return ForkEdit(path, symbol, outcome, where, why, item.what, is_symbol, item.parts, old=item.base, new=new)


def _make_file_edit(path: str, why: str, old: str, new: str) -> ForkEdit:
    """Return a whole file's edit: orphaned with a reason, else upstream's."""
    outcome, where = (Outcome.ORPHANED, f"{ORPHANED}/{path}") if why else (Outcome.UPSTREAM, "")
    return ForkEdit(path, "the whole file", outcome, where, why, "edited", old=old, new=new)


def _note(path: str, release: str, lost: Sequence[ForkEdit]) -> bytes:
    count = "1 edit" if len(lost) == 1 else f"{len(lost)} edits"
    lines = [
        f"{path} of verl {release}, as your fork has it: {count} in it could not be carried over.",
        "Move by hand what you still need, then remove this file and the other.",
        "",
    ]
    for edit in lost:
        where = f"{edit.what} in {', '.join(edit.parts)}" if edit.parts else edit.what
        lines += textwrap.wrap(f"- {edit.symbol} ({where}): {edit.why}", 118, subsequent_indent="  ")
    lines += ["", "What your fork has there, against the text of upstream's that it is nearest to:", "", ""]
    note = "\n".join(lines).encode()
    for edit in lost:
        note += (
            f"{edit.symbol}:\n".encode() + diff.write_unified_diff(path, edit.old.encode(), edit.new.encode()) + b"\n"
        )
    return note
