"""Check the project's files against the lock, and the lock against a fresh generation."""

import os
from dataclasses import asdict, replace
from pathlib import Path

from extractor import __version__
from extractor.pipeline.plan import read_digests_on_disk
from extractor.project import base
from extractor.project.lock import Lock
from extractor.usecases import emitted_files
from extractor.usecases.verify import project_files
from extractor.usecases.verify.project_files import ProjectFiles
from extractor.usecases.verify.report import Check, CheckStatus
from extractor.values.errors import CheckFailed
from extractor.values.shell import write_pip_command
from extractor.values.tree import FileKind
from extractor.values.wording import count_noun


def check_hashes(subject: ProjectFiles, *, strict: bool) -> Check:
    """Compare every file with the lock; edits fail only if `strict`."""
    entries = [file for file in subject.lock.files if file.kind is not FileKind.HOOK]
    edited = find_edited_paths(subject)
    details = [f"missing: {file.path}" for file in entries if not os.path.lexists(subject.root / file.path)]
    missing = len(details)
    details += [f"edited: {file.path} ({file.kind.value})" for file in entries if file.path in edited]
    same = len(entries) - len(details)
    if not details:
        return Check("hashes", CheckStatus.OK, f"{count_noun(same, 'file')} as emitted")
    failed = missing > 0 or strict
    summary = f"{f'{missing} missing, ' if failed else ''}{len(details) - missing} edited, {same} as emitted"
    return Check("hashes", CheckStatus.FAILED if failed else CheckStatus.REPORTED, summary, tuple(details))


def find_edited_paths(subject: ProjectFiles) -> frozenset[str]:
    """Return the paths of edited files, hooks apart."""
    digests = read_digests_on_disk(subject.lock, subject.root)
    emitted = (file for file in subject.lock.files if file.kind is not FileKind.HOOK)
    return frozenset(file.path for file in emitted if digests.get(file.path, file.sha256) != file.sha256)


def check_base(subject: ProjectFiles) -> Check:
    """Compare the base with the lock."""
    try:
        files = base.read(subject.root, subject.lock)
    except CheckFailed as error:
        return Check("base", CheckStatus.FAILED, error.message, (f"hint: {error.hint}",))
    return Check("base", CheckStatus.OK, f"{base.PATH}: {count_noun(len(files), 'file')} as the lock says")


def check_provenance(
    project: Path, lock: Lock, *, origin: Path | None = None, offline: bool = False, strict: bool = False
) -> tuple[Check, ...]:
    """Make a project anew, in memory, and compare.

    Args:
        origin: Where verl comes from; None: the package index.
        strict: Count the owner's edits as failures.

    Raises:
        SourceError: verl is not available.
    """
    again = emitted_files.regenerate(lock, origin=origin, offline=offline)
    subject, read = project_files.read_project(project), again.source
    source = Check("source", CheckStatus.OK, f"verl {read.release}, {read.kind}, sha256 {read.sha256}")
    if read.sha256 != lock.source_sha256:
        details = (
            f"vextract.lock: {lock.source_kind}, sha256 {lock.source_sha256}",
            f"read here: {read.kind}, sha256 {read.sha256}",
        )
        said = "not what the project was made from: --from names the right one"
        source = Check("source", CheckStatus.FAILED, said, details)
    edits = replace(check_hashes(subject, strict=strict), name="edits")
    return source, _check_emitted(lock, emitted_files.make_lock(again)), check_base(subject), edits


def _check_emitted(lock: Lock, made: Lock) -> Check:
    """Compare newly emitted files with those recorded in the lock."""
    old, new = ({file.path: asdict(file) for file in side.files} for side in (lock, made))
    lines = [f"{path}: only in vextract.lock" for path in old.keys() - new]
    lines += [f"{path}: only in the project as generated again" for path in new.keys() - old]
    for path in old.keys() & new:
        lines += [
            f"{path}: {name} {old[path][name]} in vextract.lock, {other} made anew"
            for name, other in new[path].items()
            if old[path][name] != other
        ]
    if not lines:
        text = (
            f"{count_noun(len(new), 'file')} of vextract.lock made anew by vextract {__version__}, equal byte for byte"
        )
        return Check("emitted", CheckStatus.OK, text)
    text = f"{count_noun(len(lines), 'difference')} from what is made anew"
    lines.sort()
    if lock.vextract != __version__:
        wanted = f"vextract {lock.vextract} made this project, and this is {__version__}"
        lines.insert(0, f"hint: {wanted}: {write_pip_command(f'vextract=={lock.vextract}')}")
    return Check("emitted", CheckStatus.FAILED, text, tuple(lines))
