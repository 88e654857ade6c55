"""A journal as a file: a zip archive with an index and the bytes of both sides."""

from __future__ import annotations

import io
import json
import zipfile

from extractor import base, lock
from extractor.journal.model import Change, Conflict, Journal

_INDEX = "journal.json"
_SCHEMA = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)


def dump(journal: Journal) -> bytes:
    """Return the bytes of a journal."""
    index = {
        "schema": _SCHEMA,
        "title": journal.title,
        "changes": [
            {"path": item.path, "old": item.old is not None, "new": item.new is not None, "mode": item.mode}
            for item in journal.changes
        ],
        "made": journal.made,
        "emptied": journal.emptied,
        "conflicts": [{"path": item.path, "beside": item.beside} for item in journal.conflicts],
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        _member(archive, _INDEX, json.dumps(index).encode())
        for number, change in enumerate(journal.changes):
            for side, data in (("old", change.old), ("new", change.new)):
                if data is not None:
                    _member(archive, f"{side}/{number}", data)
    return buffer.getvalue()


def _member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)


def parse(data: bytes) -> Journal:
    """Read the bytes of a journal.

    Raises:
        ValueError, KeyError, TypeError, BadZipFile: it is damaged, or another vextract wrote it.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        index = json.loads(archive.read(_INDEX))
        if index["schema"] != _SCHEMA:
            raise ValueError("another vextract wrote it")
        changes = tuple(
            Change(
                _safe(item["path"]),
                archive.read(f"old/{number}") if item["old"] else None,
                archive.read(f"new/{number}") if item["new"] else None,
                item["mode"],
            )
            for number, item in enumerate(index["changes"])
        )
    if [change.path for change in changes[-2:]] != [base.PATH, lock.NAME]:
        raise ValueError("it does not end with the base and the lock")
    return Journal(
        title=str(index["title"]),
        changes=changes,
        made=tuple(map(_safe, index["made"])),
        emptied=tuple((_safe(folder), int(mode)) for folder, mode in index["emptied"]),
        conflicts=tuple(Conflict(_safe(item["path"]), item["beside"]) for item in index["conflicts"]),
    )


def _safe(path: str) -> str:
    if not lock.is_safe(path):
        raise ValueError(f"{path!r} does not stay inside the project")
    return path
