"""Check a project and its statement against what this vextract makes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from extractor import __version__
from extractor.pipeline.source import Source
from extractor.project import base
from extractor.project.lock import Lock
from extractor.usecases.provenance.statement import PREDICATE, TYPE, statement
from extractor.usecases.status import State, status
from extractor.usecases.verify.report import Check, CheckStatus, Report, counted
from extractor.values import limits, readers
from extractor.values.errors import CheckFailed, UsageError
from extractor.values.shell import installing
from extractor.values.tree import Tree

_HINT = "pass what `vextract provenance` has written"


def check_provenance(
    project: Path,
    lock: Lock,
    tree: Tree,
    source: Source,
    *,
    wheel: str | None,
    given: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Report:
    """Compare a project with what is made anew from its lock's options.

    Args:
        project: Its directory.
        lock: Its lock.
        tree: The project made anew, from `source`.
        source: verl.
        wheel: The name of verl's file on the package index.
        given: A statement that the lock has to agree with.
        strict: Count the owner's edits as failures.
    """
    checks = [_source(lock, source), _emitted(lock, tree, source), _base(project, lock), _edits(project, lock, strict)]
    if given is not None:
        checks.append(_statement(given, statement(lock, wheel=wheel)))
    return Report(tuple(checks))


def _source(lock: Lock, source: Source) -> Check:
    if source.sha256 == lock.source_sha256:
        return Check("source", CheckStatus.OK, f"verl {source.release}, {source.kind}, sha256 {source.sha256}")
    details = (
        f"vextract.lock: {lock.source_kind}, sha256 {lock.source_sha256}",
        f"read here: {source.kind}, sha256 {source.sha256}",
    )
    return Check(
        "source", CheckStatus.FAILED, "not what the project was made from: --from names the right one", details
    )


def _emitted(lock: Lock, tree: Tree, source: Source) -> Check:
    """Compare what vextract emits now with what the lock says that it emitted, files that may be edited or not."""
    old = {file.path: file for file in lock.files}
    new = {file.path: file for file in tree}
    lines = []
    for path in sorted({*old, *new}):
        if path not in new:
            lines.append(f"{path}: in vextract.lock, and not made from this verl by this vextract")
        elif path not in old:
            lines.append(f"{path}: made from this verl by this vextract, and not in vextract.lock")
        else:
            facts = (
                ("sha256", old[path].sha256, new[path].sha256),
                ("kind", old[path].kind.value, new[path].kind.value),
                ("upstream", old[path].upstream_path, new[path].upstream_path),
                ("upstream sha256", old[path].upstream_sha256, new[path].upstream_sha256),
                ("changes", "; ".join(old[path].changes), "; ".join(new[path].changes)),
            )
            lines += [
                f"{path}: {name} {was} in vextract.lock, {now} made anew" for name, was, now in facts if was != now
            ]
    if not lines:
        text = f"{counted(len(new), 'file')} of vextract.lock made anew by vextract {__version__}, equal byte for byte"
        return Check("emitted", CheckStatus.OK, text)
    if lock.vextract != __version__:
        wanted = f"vextract {lock.vextract} made this project, and this is {__version__}"
        lines.insert(0, f"hint: {wanted}: {installing(f'vextract=={lock.vextract}')}")
    return Check(
        "emitted", CheckStatus.FAILED, f"{counted(len(lines), 'difference')} from what is made anew", tuple(lines)
    )


def _base(project: Path, lock: Lock) -> Check:
    try:
        found = base.read(project, lock)
    except CheckFailed as error:
        return Check("base", CheckStatus.FAILED, error.message, (f"hint: {error.hint}",))
    return Check("base", CheckStatus.OK, f"{base.PATH}: {counted(len(found), 'file')} as vextract.lock says")


def _edits(project: Path, lock: Lock, strict: bool) -> Check:
    """List what the owner has changed since: that is the owner's right, and no failure unless `strict`."""
    found = status(project, lock)
    changed = [
        f"{file.state.value}: {file.path}"
        for file in found.files
        if file.kind is not None and file.state not in (State.CLEAN, State.YOURS)
    ]
    if not changed:
        return Check("edits", CheckStatus.OK, "none: the files on disk are those of vextract.lock, but for hooks")
    how = CheckStatus.FAILED if strict else CheckStatus.REPORTED
    return Check("edits", how, f"{counted(len(changed), 'file')} not as emitted", tuple(changed))


def _statement(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> Check:
    lines = tuple(_differences(_by_name(given), _by_name(wanted), ""))
    if lines:
        return Check("statement", CheckStatus.FAILED, f"{counted(len(lines), 'difference')} from vextract.lock", lines)
    return Check(
        "statement", CheckStatus.OK, f"says what vextract.lock says, of {counted(len(wanted['subject']), 'file')}"
    )


def _by_name(found: Mapping[str, Any]) -> dict[str, Any]:
    return {**found, "subject": {item["name"]: item for item in found["subject"]}}


def _differences(given: Any, wanted: Any, where: str) -> Iterator[str]:
    """Compare what vextract would state; what a statement holds beside that is somebody else's to judge.

    But for its subjects: one that the project does not have is a difference.
    """
    if isinstance(wanted, dict) and isinstance(given, dict):
        for key in wanted:
            inner = f"{where}[{key}]" if where == "subject" else f"{where}.{key}".lstrip(".")
            yield from _differences(given.get(key), wanted[key], inner)
        if where == "subject":
            yield from (f"subject[{key}]: not in vextract.lock" for key in given if key not in wanted)
    elif isinstance(wanted, list) and isinstance(given, list) and len(given) == len(wanted):
        for number, (one, other) in enumerate(zip(given, wanted, strict=True)):
            yield from _differences(one, other, f"{where}[{number}]")
    elif given != wanted or type(given) is not type(wanted):
        yield f"{where}: {_short(given)} in the statement, {_short(wanted)} in vextract.lock"


def _short(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def read_statement(path: Path) -> dict[str, Any]:
    """Read a statement of provenance.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        data = readers.read_bytes(path, limits.MAX_TEXT)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=_HINT) from None
    try:
        found = readers.parse_json(data)
    except ValueError as error:
        raise UsageError(f"{path}: not valid JSON: {error}", hint=_HINT) from None
    problem = _problem(found)
    if problem:
        raise UsageError(f"{path}: {problem}", hint=_HINT)
    assert isinstance(found, dict)
    return found


def _problem(found: object) -> str | None:
    if isinstance(found, dict) and "payload" in found and "signatures" in found:
        return "an envelope (DSSE): verify its signature, and pass the statement that it holds (base64 in `payload`)"
    if not isinstance(found, dict) or found.get("_type") != TYPE:
        return f"no in-toto statement: its `_type` is not {TYPE}"
    if found.get("predicateType") != PREDICATE:
        return f"a statement of another kind: its `predicateType` is not {PREDICATE}"
    subjects = found.get("subject")
    if not isinstance(subjects, list) or not all(
        isinstance(item, dict) and isinstance(item.get("name"), str) for item in subjects
    ):
        return "`subject` is no array of objects with a name"
    ((name, times),) = Counter(item["name"] for item in subjects).most_common(1) or [("", 0)]
    return f"`subject` names {name} twice" if times > 1 else None
