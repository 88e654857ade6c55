"""Correct or remove the entries of a manifest that no longer hold."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from extractor.usecases.draft.findings import Finding, Kind, Note, Suggestion

Full = dict[str, Any]
_SURE = 0.9


def amend(data: Full, findings: Iterable[Finding]) -> tuple[Full, list[Note]]:
    """Put right what can be put right and take out the rest.

    Args:
        data: A manifest in full, as TOML gives it.
        findings: What of it does not hold.

    Returns:
        The amended manifest, and what was done to it and why.
    """
    data = copy.deepcopy(data)
    notes: list[Note] = []
    edits: dict[str, list[Finding]] = {}
    for item in findings:
        name = item.where.partition(".")[2]
        if item.kind is Kind.ROOT:
            _in_list(data["roles"][name], "symbols", item, notes)
        elif item.kind is Kind.MODULE:
            _in_list(data["roles"][name], "modules", item, notes)
        elif item.kind is Kind.CUT:
            _in_list(data["features"][name], "cut", item, notes)
        elif item.kind is Kind.SWAP:
            _in_table(data["features"][name]["replaced"], item, notes)
        elif item.kind is Kind.LAYOUT:
            _in_table(data["layout"], item, notes)
        elif item.kind is Kind.REPLACEMENT:
            _replacement(data, item, notes)
        elif item.kind in (Kind.FIX_MODULE, Kind.FIX_EDIT, Kind.FIX_SWAP):
            edits.setdefault(name, []).append(item)
        elif item.kind is Kind.SIGNATURE:
            notes.append(Note(item.where, f"{item.subject} {item.problem}. Does what stands for it still fit?"))
    for fix_id, items in edits.items():
        _fix(data, fix_id, items, notes)
    _empty_roles(data, notes)
    return data, notes


def _in_list(table: Full, key: str, item: Finding, notes: list[Note]) -> None:
    values = table[key]
    assert isinstance(values, list)
    at = values.index(item.subject)
    if item.moved is not None and item.moved not in values:
        values[at] = item.moved
    else:
        del values[at]
        if not values and key != "symbols":
            del table[key]
    notes.append(_moved(item) if item.moved is not None else _gone(item))


def _in_table(table: Full, item: Finding, notes: list[Note]) -> None:
    ours = table.pop(item.subject)
    if item.moved is not None:
        table.setdefault(item.moved, ours)
    notes.append(_moved(item) if item.moved is not None else _gone(item))


def _replacement(data: Full, item: Finding, notes: list[Note]) -> None:
    entries = [entry for entry in data["replacements"] if entry["symbol"] == item.subject]
    for entry in entries:
        if item.moved is not None:
            entry["symbol"] = item.moved
        else:
            data["replacements"].remove(entry)
    if entries:
        where = f"replacements.{item.moved}" if item.moved else "drop.replacements"
        notes.append(_at(where, _moved(item) if item.moved is not None else _gone(item)))


def _fix(data: Full, fix_id: str, items: list[Finding], notes: list[Note]) -> None:
    fix = next(entry for entry in data["fixes"] if entry["id"] == fix_id)
    where = f"fixes.{fix_id}"
    dropped_edits = []
    for item in items:
        if item.kind is Kind.FIX_MODULE:
            if item.moved is None:
                data["fixes"].remove(fix)
                notes.append(
                    Note("drop.fixes", f"{fix_id}: its module {item.subject} is gone{_similar(item.suggestions)}")
                )
                return
            fix["module"] = item.moved
            notes.append(_at(where, _moved(item)))
        elif item.kind is Kind.FIX_SWAP:
            _in_table(fix["replaced"], item, notes)
        elif item.count == 0:
            dropped_edits.append(item)
        else:
            fix["edits"][item.edit]["count"] = item.count
            notes.append(Note(where, f"{item.problem}. Are these the places that the fix is about?"))
    for item in reversed(dropped_edits):
        del fix["edits"][item.edit]
    if not fix.get("edits") and not fix.get("replaced"):
        data["fixes"].remove(fix)
        reasons = "; ".join(dict.fromkeys(f"{item.subject}: {item.problem}" for item in items))
        notes[:] = [note for note in notes if note.where != where]
        notes.append(
            Note("drop.fixes", f"{fix_id}: {reasons}. Has upstream repaired it, or written it in another way?")
        )
        return
    for key in ("edits", "replaced"):
        if key in fix and not fix[key]:
            del fix[key]
    notes += [Note(where, f"edit {item.edit + 1} was left out: {item.problem}") for item in dropped_edits]


def _empty_roles(data: Full, notes: list[Note]) -> None:
    for name, role in list(data["roles"].items()):
        if not role.get("symbols") and not role.get("modules"):
            del data["roles"][name]
            notes.append(Note("drop.roles", f"{name}: nothing of it is left"))


def _moved(item: Finding) -> Note:
    best = next((found for found in item.suggestions if found.place == item.moved), None)
    # Where the code is nearly the same there is nothing to decide.
    sure = best is None or best.score is None or best.score >= _SURE
    why = f" ({best.why})" if best is not None else ""
    return Note(item.where, f"{item.subject} has moved to {item.moved}{why}{'' if sure else '. Is it that?'}", not sure)


def _gone(item: Finding) -> Note:
    if item.kind in (Kind.LAYOUT, Kind.CUT) and not item.suggestions:
        return Note(item.where, f"{item.subject} {item.problem}, and was taken out", todo=item.kind is Kind.CUT)
    return Note(item.where, f"{item.subject} {item.problem}{_similar(item.suggestions)}. What takes its part?")


def _similar(suggestions: tuple[Suggestion, ...]) -> str:
    return f"; similar: {', '.join(map(str, suggestions))}" if suggestions else ", and nothing is like it"


def _at(where: str, note: Note) -> Note:
    return Note(where, note.text, note.todo)
