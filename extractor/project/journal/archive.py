"""Read and write a journal as a zip archive."""

import io
import json
import zipfile

from extractor.project import base, lock
from extractor.project.disk import is_inside
from extractor.project.journal.entry import Change, Conflict, Journal
from extractor.project.side_files import BESIDE_SUFFIX, ORPHANED
from extractor.values import readers
from extractor.values.config_files import is_config
from extractor.values.manifest import OWN_MANIFEST

_INDEX = "journal.json"
_SCHEMA = 1
_PLAIN_MODES = 0o777
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
        _write_member(archive, _INDEX, json.dumps(index).encode())
        for number, change in enumerate(journal.changes):
            for side, data in (("old", change.old), ("new", change.new)):
                if data is not None:
                    _write_member(archive, f"{side}/{number}", data)
    return buffer.getvalue()


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)


def parse(data: bytes) -> Journal:
    """Read the bytes of a journal.

    Raises:
        ValueError, KeyError, TypeError, BadZipFile: it is damaged, or another vextract wrote it.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if not readers.is_stored(archive, len(data)):
            raise ValueError("it is compressed")
        index = readers.parse_json(archive.read(_INDEX))
        if index["schema"] != _SCHEMA:
            raise ValueError("another vextract wrote it")
        changes = tuple(
            Change(
                _check_path(item["path"]),
                archive.read(f"old/{number}") if item["old"] else None,
                archive.read(f"new/{number}") if item["new"] else None,
                _check_mode(item["mode"]),
            )
            for number, item in enumerate(index["changes"])
        )
    if [change.path for change in changes[-2:]] != [base.PATH, lock.NAME]:
        raise ValueError("it does not end with the base and the lock")
    _check_known(changes)
    return Journal(
        title=str(index["title"]),
        changes=changes,
        made=tuple(map(_check_path, index["made"])),
        emptied=tuple((_check_path(folder), _check_mode(int(mode)) or 0) for folder, mode in index["emptied"]),
        conflicts=tuple(
            Conflict(_check_path(item["path"]), None if item["beside"] is None else _check_path(item["beside"]))
            for item in index["conflicts"]
        ),
    )


def _check_path(path: str) -> str:
    if not is_inside(path):
        raise ValueError(f"{path!r} is no path of a project's file")
    return path


def _check_mode(value: int | None) -> int | None:
    """Check permissions: plain ones, as a project's files have them."""
    if value is not None and not 0 <= value <= _PLAIN_MODES:
        raise ValueError(f"permissions {value!r}")
    return value


def _check_known(changes: tuple[Change, ...]) -> None:
    """Refuse changes of files that neither lock lists.

    The owner's own config files may be given another text, and are never made or removed; the owner's manifest may be
    made, too.
    """
    known: set[str] = set()
    for data in (changes[-1].old, changes[-1].new):
        if data is not None:
            known |= {file.path for file in lock.parse(data).files}
    for change in changes[:-2]:
        beside = change.path.removesuffix(BESIDE_SUFFIX)
        parked = change.path.startswith(f"{ORPHANED}/")
        rewritten = is_config(change.path) and change.old is not None and change.new is not None
        rooted = change.path == OWN_MANIFEST and change.new is not None
        if beside not in known and not parked and not rewritten and not rooted:
            raise ValueError(f"{change.path!r} is no file of the project")
