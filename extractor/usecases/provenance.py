"""Check a project against what this vextract makes of the options in its lock."""

from __future__ import annotations

from pathlib import Path

from extractor import __version__
from extractor.pipeline.source import Source
from extractor.project import base
from extractor.project.lock import Lock
from extractor.usecases import restore
from extractor.usecases.status import State, status
from extractor.usecases.verify.report import Check, CheckStatus, Report, counted
from extractor.values.errors import CheckFailed
from extractor.values.shell import installing
from extractor.values.tree import Tree


def check_provenance(
    project: Path, lock: Lock, *, origin: Path | None = None, offline: bool = False, strict: bool = False
) -> Report:
    """Make a project anew, in memory, and compare.

    Args:
        project: Its directory.
        lock: Its lock.
        origin: Where verl comes from; None: the package index.
        offline: Never download.
        strict: Count the owner's edits as failures.

    Raises:
        SourceError: verl is not available.
    """
    again = restore.regenerate(lock, origin=origin, offline=offline)
    checks = _source(lock, again.source), _emitted(lock, again.generated.tree), _base(project, lock)
    return Report((*checks, _edits(project, lock, strict)))


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


def _emitted(lock: Lock, tree: Tree) -> Check:
    """Compare what vextract emits now with what the lock says that it emitted, files that may be edited or not."""
    old, new = {file.path: file for file in lock.files}, {file.path: file for file in tree}
    lines = [f"{path}: in vextract.lock, and not made from this verl by this vextract" for path in old.keys() - new]
    lines += [f"{path}: made from this verl by this vextract, and not in vextract.lock" for path in new.keys() - old]
    for path in old.keys() & new:
        was, now = old[path], new[path]
        facts = (
            ("sha256", was.sha256, now.sha256),
            ("kind", was.kind.value, now.kind.value),
            ("upstream", was.upstream_path, now.upstream_path),
            ("upstream sha256", was.upstream_sha256, now.upstream_sha256),
            ("changes", "; ".join(was.changes), "; ".join(now.changes)),
        )
        lines += [
            f"{path}: {name} {one} in vextract.lock, {other} made anew" for name, one, other in facts if one != other
        ]
    if not lines:
        text = f"{counted(len(new), 'file')} of vextract.lock made anew by vextract {__version__}, equal byte for byte"
        return Check("emitted", CheckStatus.OK, text)
    text = f"{counted(len(lines), 'difference')} from what is made anew"
    lines.sort()
    if lock.vextract != __version__:
        wanted = f"vextract {lock.vextract} made this project, and this is {__version__}"
        lines.insert(0, f"hint: {wanted}: {installing(f'vextract=={lock.vextract}')}")
    return Check("emitted", CheckStatus.FAILED, text, tuple(lines))


def _base(project: Path, lock: Lock) -> Check:
    try:
        found = base.read(project, lock)
    except CheckFailed as error:
        return Check("base", CheckStatus.FAILED, error.message, (f"hint: {error.hint}",))
    return Check("base", CheckStatus.OK, f"{base.PATH}: {counted(len(found), 'file')} as vextract.lock says")


def _edits(project: Path, lock: Lock, strict: bool) -> Check:
    """List what the owner has changed since: that is the owner's right, and no failure unless `strict`."""
    changed = [
        f"{file.state.value}: {file.path}"
        for file in status(project, lock).files
        if file.kind is not None and file.state not in (State.CLEAN, State.YOURS)
    ]
    if not changed:
        return Check("edits", CheckStatus.OK, "none: the files on disk are those of vextract.lock, but for hooks")
    how = CheckStatus.FAILED if strict else CheckStatus.REPORTED
    return Check("edits", how, f"{counted(len(changed), 'file')} not as emitted", tuple(changed))
