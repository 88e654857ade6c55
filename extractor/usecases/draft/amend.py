"""Correct or remove manifest entries that are no longer valid."""

import copy
from collections.abc import Iterable
from typing import Any

from extractor.usecases.draft.findings import Finding, Kind

Full = dict[str, Any]
OF_FIXES = (Kind.FIX_MODULE, Kind.FIX_EDIT, Kind.FIX_SWAP)


def amend(data: Full, findings: Iterable[Finding]) -> Full:
    """Return a manifest with reported entries corrected where possible, else removed.

    Args:
        data: The manifest in full, as TOML gives it.
        findings: What of it does not hold.
    """
    data, fixes = copy.deepcopy(data), dict[str, list[Finding]]()
    followed = list_followed(findings)
    for item in findings:
        table, _, name = item.where.partition(".")
        if item.kind in OF_FIXES:
            fixes.setdefault(name, []).append(item)
        elif item.kind is not Kind.SIGNATURE and not (item.kind is Kind.LAYOUT and item.subject in followed):
            holder, key = (data[table], name) if table in ("roles", "features") else (data, table)
            holder[key] = _move(holder[key], item.subject, item.moved)
    _follow_roots(data, findings)
    for fix_id, items in fixes.items():
        _amend_fix(data, fix_id, items)
    data["roles"] = {name: role for name, role in data["roles"].items() if role.get("symbols") or role.get("modules")}
    return data


def _move(value: Any, old: str, new: str | None) -> Any:
    """Return a part of a manifest with another name for a thing, or without it."""
    if isinstance(value, list):
        parts = [_move(part, old, new) for part in value]
        return [part for number, part in enumerate(parts) if part is not None and part not in parts[:number]]
    if not isinstance(value, dict):
        return new if value == old else value
    if value.get("symbol") == old and new is None:
        return None  # an entry of `[[replacements]]`
    named = {new if key == old else key: _move(part, old, new) for key, part in value.items() if key != old or new}
    return {key: part for key, part in named.items() if part != [] or key == "symbols"}


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


def _amend_fix(data: Full, fix_id: str, items: list[Finding]) -> None:
    """Correct a fix, or remove it if nothing of it applies."""
    fix = next(entry for entry in data["fixes"] if entry["id"] == fix_id)
    dropped = [item.edit for item in items if item.kind is Kind.FIX_EDIT and item.count == 0]
    for item in items:
        if item.kind is Kind.FIX_SWAP:
            fix["replaced"] = _move(fix["replaced"], item.subject, item.moved)
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
