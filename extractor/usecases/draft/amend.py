"""Correct or remove manifest entries that are no longer valid."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from extractor.usecases.draft.findings import Finding, Kind, Note

Full = dict[str, Any]
_SURE = 0.9
_LISTS = {Kind.ROOT: ("roles", "symbols"), Kind.MODULE: ("roles", "modules"), Kind.CUT: ("features", "cut")}


def amend(data: Full, findings: Iterable[Finding]) -> tuple[Full, list[Note]]:
    """Correct the reported manifest entries where possible; remove the others.

    Args:
        data: A manifest in full, as TOML gives it.
        findings: What of it does not hold.

    Returns:
        The amended manifest, and what was done to it and why.
    """
    data = copy.deepcopy(data)
    notes: list[Note] = []
    edits: dict[str, list[Finding]] = {}
    followed = {_name_file(item.subject) for item in findings if item.kind is Kind.ROOT and item.moved}
    for item in findings:
        name = item.where.partition(".")[2]
        if item.kind is Kind.LAYOUT and item.subject in followed:
            continue  # its roots say where it has gone, which is surer than what is like it
        if item.kind in _LISTS:
            table, key = _LISTS[item.kind]
            _amend_list(data[table][name], key, item)
            notes.append(_note(item))
        elif item.kind in (Kind.SWAP, Kind.LAYOUT):
            _amend_table(data["layout"] if item.kind is Kind.LAYOUT else data["features"][name]["replaced"], item)
            notes.append(_note(item))
        elif item.kind is Kind.REPLACEMENT:
            kept = [entry for entry in data["replacements"] if entry["symbol"] != item.subject or item.moved]
            data["replacements"] = [
                {**entry, "symbol": item.moved} if entry["symbol"] == item.subject else entry for entry in kept
            ]
            notes.append(_note(item, f"replacements.{item.moved}" if item.moved else "drop.replacements"))
        elif item.kind in (Kind.FIX_MODULE, Kind.FIX_EDIT, Kind.FIX_SWAP):
            edits.setdefault(name, []).append(item)
        elif item.kind is Kind.SIGNATURE:
            notes.append(Note(item.where, f"{item.subject} {item.problem}. Does what stands for it still fit?"))
    notes += _follow_roots(data, findings)
    for fix_id, items in edits.items():
        notes += _amend_fix(data, fix_id, items)
    for name, role in list(data["roles"].items()):
        if not role.get("symbols") and not role.get("modules"):
            del data["roles"][name]
            notes.append(Note("drop.roles", f"{name}: nothing of it is left"))
    return data, notes


def _follow_roots(data: Full, findings: Iterable[Finding]) -> list[Note]:
    """Move layout entries of modules whose roots have all moved."""
    left = {symbol.partition(":")[0] for role in data["roles"].values() for symbol in role.get("symbols", ())}
    notes = []
    for item in findings:
        was, now = (_name_file(symbol) for symbol in (item.subject, item.moved or item.subject))
        if item.kind is Kind.ROOT and item.subject.partition(":")[0] not in left and was in data["layout"]:
            data["layout"][now] = data["layout"].pop(was)
            notes.append(Note("layout", f"{was} has moved to {now}, with what the project needs of it", todo=False))
    return notes


def _name_file(symbol: str) -> str:
    return f"{symbol.partition(':')[0].removeprefix('verl.').replace('.', '/')}.py"


def _amend_list(table: Full, key: str, item: Finding) -> None:
    values = table[key]
    at = values.index(item.subject)
    values[at : at + 1] = [item.moved] if item.moved is not None and item.moved not in values else []
    if not values and key != "symbols":
        del table[key]


def _amend_table(table: Full, item: Finding) -> None:
    ours = table.pop(item.subject)
    if item.moved is not None:
        table.setdefault(item.moved, ours)


def _amend_fix(data: Full, fix_id: str, items: list[Finding]) -> list[Note]:
    """Correct a fix, or remove it if nothing of it applies."""
    fix = next(entry for entry in data["fixes"] if entry["id"] == fix_id)
    where = f"fixes.{fix_id}"
    notes, dropped = [], []
    for item in items:
        if item.kind is Kind.FIX_MODULE:
            if item.moved is None:
                data["fixes"].remove(fix)
                return [Note("drop.fixes", f"{fix_id}: its module {item.subject} is gone{_propose_similar(item)}")]
            fix["module"] = item.moved
            notes.append(_note(item))
        elif item.kind is Kind.FIX_SWAP:
            _amend_table(fix["replaced"], item)
            notes.append(_note(item))
        elif item.count == 0:
            dropped.append(item)
        else:
            fix["edits"][item.edit]["count"] = item.count
            notes.append(Note(where, f"{item.problem}. Are these the places that the fix is about?"))
    for item in reversed(dropped):
        del fix["edits"][item.edit]
    if not fix.get("edits") and not fix.get("replaced"):
        data["fixes"].remove(fix)
        reasons = "; ".join(dict.fromkeys(f"{item.subject}: {item.problem}" for item in items))
        said = f"{fix_id}: {reasons}. Has upstream repaired it, or written it in another way?"
        return [Note("drop.fixes", said)]
    for key in ("edits", "replaced"):
        if key in fix and not fix[key]:
            del fix[key]
    return notes + [Note(where, f"edit {item.edit + 1} was left out: {item.problem}") for item in dropped]


def _note(item: Finding, where: str | None = None) -> Note:
    """Say that something has moved, or that it is gone."""
    place = where or item.where
    if item.moved is None:
        if item.kind in (Kind.LAYOUT, Kind.CUT) and not item.suggestions:
            return Note(place, f"{item.subject} {item.problem}, and was taken out", todo=item.kind is Kind.CUT)
        return Note(place, f"{item.subject} {item.problem}{_propose_similar(item)}. What takes its part?")
    best = next((found for found in item.suggestions if found.place == item.moved), None)
    # Where the code is nearly the same there is nothing to decide.
    is_sure = best is None or best.score is None or best.score >= _SURE
    why = f" ({best.why})" if best is not None else ""
    return Note(
        place, f"{item.subject} has moved to {item.moved}{why}{'' if is_sure else '. Is it that?'}", not is_sure
    )


def _propose_similar(item: Finding) -> str:
    found = ", ".join(map(str, item.suggestions))
    return f"; similar: {found}" if found else ", and nothing is like it"
