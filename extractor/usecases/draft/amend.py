"""Correct or remove manifest entries that are no longer valid."""

import copy
from collections.abc import Iterable
from typing import Any

from extractor.usecases.draft.findings import Finding, Kind

Full = dict[str, Any]
OF_FIXES = (Kind.FIX_MODULE, Kind.FIX_EDIT, Kind.FIX_SWAP)
_LISTS = {Kind.ROOT: ("roles", "symbols"), Kind.MODULE: ("roles", "modules"), Kind.CUT: ("features", "cut")}


def amend(data: Full, findings: Iterable[Finding]) -> Full:
    """Return a manifest with reported entries corrected where possible, else removed.

    Args:
        data: The manifest in full, as TOML gives it.
        findings: What of it does not hold.
    """
    data, fixes = copy.deepcopy(data), dict[str, list[Finding]]()
    followed = list_followed(findings)
    for item in findings:
        name = item.where.partition(".")[2]
        if item.kind in _LISTS:
            table, key = _LISTS[item.kind]
            _amend_list(data[table][name], key, item)
        elif item.kind is Kind.SWAP:
            _amend_table(data["features"][name]["replaced"], item)
        elif item.kind is Kind.LAYOUT and item.subject not in followed:
            _amend_table(data["layout"], item)
        elif item.kind is Kind.REPLACEMENT:
            kept = [entry for entry in data["replacements"] if entry["symbol"] != item.subject or item.moved]
            data["replacements"] = [
                {**entry, "symbol": item.moved} if entry["symbol"] == item.subject else entry for entry in kept
            ]
        elif item.kind in OF_FIXES:
            fixes.setdefault(name, []).append(item)
    _follow_roots(data, findings)
    for fix_id, items in fixes.items():
        _amend_fix(data, fix_id, items)
    data["roles"] = {name: role for name, role in data["roles"].items() if role.get("symbols") or role.get("modules")}
    return data


def list_followed(findings: Iterable[Finding]) -> set[str]:
    """Return files whose roots say where they went, surer than likeness."""
    return {name_file(item.subject) for item in findings if item.kind is Kind.ROOT and item.moved}


def name_file(symbol: str) -> str:
    """Return the key in `[layout]` of a symbol's file."""
    return f"{symbol.partition(':')[0].removeprefix('verl.').replace('.', '/')}.py"


def _follow_roots(data: Full, findings: Iterable[Finding]) -> None:
    """Move layout entries of modules whose roots have all moved."""
    left = {symbol.partition(":")[0] for role in data["roles"].values() for symbol in role.get("symbols", ())}
    for item in findings:
        was, is_gone = name_file(item.subject), item.subject.partition(":")[0] not in left
        if item.kind is Kind.ROOT and item.moved and is_gone and was in data["layout"]:
            data["layout"][name_file(item.moved)] = data["layout"].pop(was)


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


def _amend_fix(data: Full, fix_id: str, items: list[Finding]) -> None:
    """Correct a fix, or remove it if nothing of it applies."""
    fix = next(entry for entry in data["fixes"] if entry["id"] == fix_id)
    dropped = [item.edit for item in items if item.kind is Kind.FIX_EDIT and item.count == 0]
    for item in items:
        if item.kind is Kind.FIX_SWAP:
            _amend_table(fix["replaced"], item)
        elif item.kind is Kind.FIX_MODULE:
            fix["module"] = item.moved
        elif item.count:
            fix["edits"][item.edit]["count"] = item.count
    fix["edits"] = [edit for number, edit in enumerate(fix.get("edits", ())) if number not in dropped]
    for key in ("edits", "replaced"):
        if not fix.get(key):
            fix.pop(key, None)
    if not fix["module"] or not ("edits" in fix or "replaced" in fix):
        data["fixes"].remove(fix)
