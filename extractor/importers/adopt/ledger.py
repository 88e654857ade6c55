"""Every edit of the fork and what became of it, and the notes for those that have no place."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from extractor.importers.adopt.carry import DROPPED, Carried, reason
from extractor.importers.adopt.differences import COMMENTS, Difference
from extractor.importers.adopt.findings import Edit, Outcome
from extractor.importers.adopt.locate import VERSION
from extractor.importers.adopt.roles import played_by
from extractor.importers.adopt.segments import TOP, Segment, hunks, split
from extractor.importers.adopt.target_project import Sides, TargetProject, Unit
from extractor.importers.adopt.upstream_names import decoded
from extractor.pipeline.source import Source
from extractor.project.side_files import NOTE_SUFFIX, ORPHANED
from extractor.usecases import diff
from extractor.values.fingerprint import of_text, parts_of_upstream

_NO_FILE = "the project does not have this file: nothing that was vendored uses it"
_ITS_OWN = "the project has its own instead"
_CONFIG = "the project's configuration is its own: see config/, which has upstream's keys"


def ledger(target: TargetProject, source: Source, carried: Carried) -> tuple[Edit, ...]:
    """Return all edits, sorted by file and in the fork's order."""
    edits: list[Edit] = []
    kept = {sides.kept.upstream_path: sides for sides in target.sides.values()}
    for path, data in target.copy.files.items():
        upstream = source.files.get(path)
        if upstream is None or upstream == data or path == VERSION:
            continue
        old, new = decoded(upstream), target.fork_text(path)
        if old is None or new is None:
            edits.append(_whole(path, "it is not UTF-8 text", "", "", 1))
        elif _bare(old) != _bare(new):
            edits += _of_file(target, path, old, new, kept.get(path), carried)
    return tuple(edits)


def parked(path: str) -> str:
    """Return where the fork's version of a file goes that has edits without a place."""
    return f"{ORPHANED}/{path}"


def orphans(target: TargetProject, source: Source, edits: Sequence[Edit]) -> dict[str, bytes]:
    """Return the fork's version of every file that has edits without a place, and the notes."""
    by_path: dict[str, list[Edit]] = {}
    for edit in edits:
        if edit.outcome is Outcome.ORPHANED:
            by_path.setdefault(edit.upstream_path, []).append(edit)
    files = {}
    for path, lost in by_path.items():
        files[parked(path)] = target.copy.files[path]
        files[parked(path) + NOTE_SUFFIX] = _note(path, source.release, lost)
    return files


def _of_file(target: TargetProject, path: str, old: str, new: str, sides: Sides | None, carried: Carried) -> list[Edit]:
    instead = ", ".join(played_by(path, target.package, target.files))
    no_file = f"{_ITS_OWN}: {instead}" if instead else _NO_FILE
    if not path.endswith(".py"):
        if of_text(new) in parts_of_upstream():
            return [_whole(path, "", old, new, hunks(old, new), Outcome.UPSTREAM)]
        why = _CONFIG if path.endswith((".yaml", ".yml")) else no_file
        return [_whole(path, why, old, new, hunks(old, new))]
    compared = target.compared.get(path)
    if compared is None:
        try:
            split(new)
        except SyntaxError as error:
            why = f"it is not valid Python: {error.msg}, line {error.lineno}"
            return [_whole(path, why, old, new, hunks(old, new))]
        return []
    found = compared.found
    edits = []
    for item in found.symbols:
        if item.what == "removed" and not _emitted(sides, item):
            continue
        if item.is_upstreams and not (sides is not None and Unit(sides.module, item.key) in carried.works):
            edits.append(replace(_edit(path, item, None, None), outcome=Outcome.UPSTREAM, where=""))
            continue
        absent = no_file if sides is None else reason(carried, sides, item)
        if absent == DROPPED and instead:
            absent = f"{_ITS_OWN}: {instead}"
        edits.append(_edit(path, item, sides, absent))
    used = _used(sides, carried)
    for imported in found.imports:
        missing = (
            None if (imported.local, imported.module.partition(".")[0]) in used else "no code that came along uses it"
        )
        if sides is None:
            missing = no_file
        origin = f"from {imported.module} import {imported.name}" if imported.name else f"import {imported.module}"
        edits.append(_line(path, origin, sides, missing))
    if found.comments:
        edits.append(_line(path, COMMENTS, sides, "the project's imports are its own", "\n".join(found.comments)))
    return edits


def _used(sides: Sides | None, carried: Carried) -> set[tuple[str, str]]:
    """Name, and where it came from in the fork, of the imports that came along."""
    if sides is None:
        return set()
    found = set()
    for unit, work in carried.works.items():
        if unit.module == sides.module:
            for line in work.lines:
                found.add((line.local, line.outside or "verl"))
            found.add(("annotations", "__future__"))
    return found


def _emitted(sides: Sides | None, item: Difference) -> bool:
    return sides is not None and item.key in sides.emitted_by_key


def _edit(path: str, item: Difference, sides: Sides | None, why: str | None) -> Edit:
    segment = item.new or item.old
    assert segment is not None
    return Edit(
        upstream_path=path,
        symbol=_title(segment),
        what=item.what,
        is_symbol=segment.node is not None,
        hunks=item.hunks,
        outcome=Outcome.CARRIED if why is None else Outcome.ORPHANED,
        where=sides.path if why is None and sides is not None else parked(path),
        why=why or "",
        parts=item.parts,
        old=item.base,
        new=item.new.core if item.new is not None else "",
    )


def _title(segment: Segment) -> str:
    return segment.key if segment.key == TOP else segment.title


def _line(path: str, symbol: str, sides: Sides | None, why: str | None, text: str = "") -> Edit:
    return Edit(
        upstream_path=path,
        symbol=symbol,
        what="added",
        is_symbol=False,
        hunks=1,
        outcome=Outcome.CARRIED if why is None else Outcome.ORPHANED,
        where=sides.path if why is None and sides is not None else parked(path),
        why=why or "",
        new=f"{text or symbol}\n",
    )


def _whole(path: str, why: str, old: str, new: str, places: int, outcome: Outcome = Outcome.ORPHANED) -> Edit:
    where = parked(path) if outcome is Outcome.ORPHANED else ""
    return Edit(path, "the whole file", "edited", False, places, outcome, where, why, old=old, new=new)


def _note(path: str, release: str, lost: Sequence[Edit]) -> bytes:
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
        note += f"{edit.symbol}:\n".encode() + diff.unified(path, edit.old.encode(), edit.new.encode()) + b"\n"
    return note


def _bare(text: str) -> str:
    return text.strip("\n")
