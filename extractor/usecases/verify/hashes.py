"""Check the project's files and base against the lock."""

from __future__ import annotations

from extractor.pipeline.plan import read_digests_on_disk
from extractor.project import base
from extractor.usecases.verify.report import Check, CheckStatus, count_noun
from extractor.usecases.verify.subject import Subject
from extractor.values.errors import CheckFailed
from extractor.values.tree import FileKind


def check_hashes(subject: Subject, *, strict: bool) -> Check:
    """Compare every file with the lock; edits fail only if `strict`."""
    entries = [entry for entry in subject.lock.files if entry.kind is not FileKind.HOOK]
    found = read_digests_on_disk(subject.lock, subject.root)
    missing = [entry.path for entry in entries if entry.path not in found]
    same = sum(found.get(entry.path) == entry.sha256 for entry in entries)
    edited = [
        f"{entry.path} ({entry.kind.value})" for entry in entries if found.get(entry.path, entry.sha256) != entry.sha256
    ]
    details = (*(f"missing: {path}" for path in missing), *(f"edited: {path}" for path in edited))
    if not details:
        return Check("hashes", CheckStatus.OK, f"{count_noun(same, 'file')} as emitted")
    failed = bool(missing) or strict
    summary = f"{f'{len(missing)} missing, ' if failed else ''}{len(edited)} edited, {same} as emitted"
    return Check("hashes", CheckStatus.FAILED if failed else CheckStatus.REPORTED, summary, details)


def check_base(subject: Subject) -> Check:
    """Compare the base with the lock."""
    try:
        files = base.read(subject.root, subject.lock)
    except CheckFailed as error:
        return Check("base", CheckStatus.FAILED, error.message, (f"hint: {error.hint}",))
    return Check("base", CheckStatus.OK, f"{base.PATH}: {count_noun(len(files), 'file')} as the lock says")


def find_edited_paths(subject: Subject) -> frozenset[str]:
    """Return the paths of edited vendored files."""
    found = read_digests_on_disk(subject.lock, subject.root)
    vendored = (entry for entry in subject.lock.files if entry.kind is FileKind.VENDORED)
    return frozenset(entry.path for entry in vendored if found.get(entry.path, entry.sha256) != entry.sha256)
