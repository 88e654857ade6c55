"""Check the project's files and base against the lock."""

from __future__ import annotations

from hashlib import sha256

from extractor.project import base
from extractor.usecases.verify.report import Check, CheckStatus, counted
from extractor.usecases.verify.subject import Subject
from extractor.values import readers
from extractor.values.errors import CheckFailed
from extractor.values.tree import FileKind


def check_hashes(subject: Subject, *, strict: bool) -> Check:
    """Compare every file with the lock. An edited file is the owner's right, and a failure only where `strict`."""
    edited, missing, same = [], [], 0
    for entry in subject.lock.files:
        if entry.kind is FileKind.HOOK:
            continue
        try:
            data = readers.read_bytes(subject.root / entry.path)
        except OSError:
            missing.append(entry.path)
            continue
        if sha256(data).hexdigest() == entry.sha256:
            same += 1
        else:
            edited.append(f"{entry.path} ({entry.kind.value})")
    details = (*(f"missing: {path}" for path in missing), *(f"edited: {path}" for path in edited))
    if not details:
        return Check("hashes", CheckStatus.OK, f"{counted(same, 'file')} as emitted")
    failed = bool(missing) or strict
    summary = f"{f'{len(missing)} missing, ' if failed else ''}{len(edited)} edited, {same} as emitted"
    return Check("hashes", CheckStatus.FAILED if failed else CheckStatus.REPORTED, summary, details)


def check_base(subject: Subject) -> Check:
    """Compare the base with the lock."""
    try:
        files = base.read(subject.root, subject.lock)
    except CheckFailed as error:
        return Check("base", CheckStatus.FAILED, error.message, (f"hint: {error.hint}",))
    return Check("base", CheckStatus.OK, f"{base.PATH}: {counted(len(files), 'file')} as the lock says")


def edited_paths(subject: Subject) -> frozenset[str]:
    """Return the paths of vendored files that differ from what was emitted."""
    return frozenset(
        file.path
        for file in subject.vendored
        if (entry := subject.lock.file(file.path)) is not None
        and sha256(readers.read_bytes(subject.root / file.path)).hexdigest() != entry.sha256
    )
