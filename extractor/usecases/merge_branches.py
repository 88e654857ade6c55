"""Merge two Git branches of a project at their newer release."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from extractor.pipeline import merge
from extractor.pipeline.merge import Labels
from extractor.pipeline.merge.files import merge_file
from extractor.project import base, disk, git
from extractor.project import lock as lock_module
from extractor.project.lock import Lock
from extractor.project.side_files import NOTE_SUFFIX
from extractor.usecases import upgrade
from extractor.usecases.upgrade.choices import UpgradeRequest
from extractor.values import readers
from extractor.values.errors import CheckFailed, UsageError, VextractError
from extractor.values.manifest import OWN_MANIFEST
from extractor.values.options import Options

DRIVER = (
    "git config merge.vextract.driver 'echo \"run vextract merge to finish this merge\" >&2; false' && "
    f"printf '%s merge=vextract\\n' {lock_module.NAME} {base.PATH} >> .gitattributes"
)
_OURS = (lock_module.NAME, base.PATH)
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Revision:
    """Holds a commit's project files and Git modes, without links."""

    name: str
    files: dict[str, bytes]
    modes: dict[str, str]

    @property
    def lock(self) -> Lock | None:
        """The lock; None where the project was not there yet."""
        data = self.files.get(lock_module.NAME)
        return lock_module.parse(data) if data is not None else None


@dataclass(frozen=True)
class BranchMerge:
    """A merge that is worked out.

    Attributes:
        sides: The merge base, our commit and the other one.
        options: What the merged project is made with.
        files: All its files, by path.
        conflicts: Path -> the lines of its markers; none where a side is binary or removed.
    """

    sides: tuple[Revision, Revision, Revision]
    options: Options
    files: Files
    conflicts: Mapping[str, tuple[int, ...]]


def merge_in_memory(project: Path, branch: str | None, *, origin: Path | None, offline: bool) -> BranchMerge:
    """Merge a branch in memory; without one, Git's pending merge.

    Raises:
        UsageError: there is nothing to merge, changes are not committed, or the branches are of two packages.
        CheckFailed: a side cannot be taken to the release of the merge.
    """
    begun = _ask(project, "rev-parse", "--verify", "--quiet", "MERGE_HEAD")
    if bool(begun) == bool(branch):
        what = "Git is in the middle of a merge" if begun else "no merge is going on"
        raise UsageError(what, hint="run `vextract merge`" if begun else "name a branch: `vextract merge BRANCH`")
    if branch and _ask(project, "status", "--porcelain", "--untracked-files=no", "--", "."):
        raise UsageError("there are uncommitted changes", hint="commit them first")
    theirs = _resolve_revision(project, branch or begun)
    known = _ask(project, "merge-base", "HEAD", theirs)
    if known in (theirs, _resolve_revision(project, "HEAD")):
        raise UsageError("nothing to merge: one of the two has all of the other", hint=f"git merge {branch or theirs}")
    was, mine = _read(project, known, "their last common commit"), _read(project, "HEAD", "HEAD")
    return _merge(was, mine, _read(project, theirs, branch or begun[:10]), origin, offline)


def write(project: Path, merged: BranchMerge, branch: str | None) -> None:
    """Start the Git merge, then write merged files and index entries.

    Raises:
        CheckFailed: a file that Git does not know is in the way; nothing is written then.
    """
    listed = _ask(project, "ls-files", "-z").split("\0")
    for path in sorted(merged.files.keys() - set(listed) - merged.sides[2].files.keys()):
        if os.path.lexists(disk.gate(project, path)):
            raise CheckFailed(f"{path}: Git does not know it, and it is in the way", hint="move it, or commit it")
    if branch:
        git.ask(project, "merge", "--no-commit", "--no-ff", branch, none_found=1)
    everything = sorted(merged.files.keys() | {path for side in merged.sides for path in side.files})
    index = []

    def store(data: bytes) -> str:
        return os.fsdecode(git.ask(project, "hash-object", "-w", "--no-filters", "--stdin", given=data) or b"").strip()

    for path in everything:
        place, data = disk.gate(project, path), merged.files.get(path)
        index.append(f"0 {'0' * 40}\t{path}")
        modes = [side.modes.get(path) for side in merged.sides]
        mode = (modes[2] if modes[0] == modes[1] else modes[1]) or modes[1] or "100644"
        if data is None:
            place.unlink(missing_ok=True)
            continue
        if not place.is_file() or place.is_symlink() or place.read_bytes() != data:
            place.parent.mkdir(parents=True, exist_ok=True)
            disk.replace(place, data, 0o755 if mode == "100755" else 0o644)
        if path not in merged.conflicts:
            index.append(f"{mode} {store(data)} 0\t{path}")
            continue
        for stage, side in enumerate(merged.sides, 1):
            if path in side.files:
                index.append(f"{side.modes[path]} {store(side.files[path])} {stage}\t{path}")
    prefix = _ask(project, "rev-parse", "--show-prefix")
    lines = (line.replace("\t", f"\t{prefix}", 1) for line in index)
    git.ask(project, "update-index", "-z", "--index-info", given=os.fsencode("\0".join(lines) + "\0"))


def _merge(was: Revision, mine: Revision, new: Revision, origin: Path | None, offline: bool) -> BranchMerge:
    locks = [side.lock for side in (was, mine, new)]
    if locks[1] is None or locks[2] is None:
        raise UsageError("one of the branches has no vextract.lock", hint="`git merge` merges it")
    options = _choose(locks[0], locks[1], locks[2])
    labels = Labels(f"yours, {mine.name}", was.name, new.name)
    own = [side.files.get(OWN_MANIFEST, b"") for side in (was, mine, new)]
    merged_manifest = merge_file(OWN_MANIFEST, own[0], own[1], own[2], labels)
    if merged_manifest.conflicts:
        raise CheckFailed(
            f"{OWN_MANIFEST}: both branches changed the same lines", hint="make them agree on one of the branches"
        )
    taken = [_take(side, options, merged_manifest.data, origin, offline) for side in (was, mine, new)]
    before, ours, theirs = (side[0] for side in taken)
    if was.lock is None:
        before = taken[1][1]  # what both have from vextract
    files, conflicts = _merge_files(before, ours, theirs, labels)
    files |= {path: ours[path] for path in _OURS}
    if not conflicts:  # with both sides' code, other methods of upstream's may be needed
        files = dict(_take(Revision("the merge", files, {}), options, merged_manifest.data, origin, offline)[0])
    return BranchMerge((was, mine, new), options, files, conflicts)


def _choose(was: Lock | None, mine: Lock, new: Lock) -> Options:
    """Combine both branches' options, with the newer release."""
    ours, theirs = mine.options, new.options
    old = was.options if was is not None else ours
    if ours.package != theirs.package:
        raise UsageError(
            f"the branches are of two packages: {ours.package} and {theirs.package}", hint="merge them by hand"
        )
    features = set(ours.features) & set(theirs.features)
    features |= (set(ours.features) ^ set(theirs.features)) - set(old.features)
    return replace(
        ours,
        verl=max(ours.verl, theirs.verl, key=Version),
        engine=theirs.engine if ours.engine == old.engine else ours.engine,
        algorithm=theirs.algorithm if ours.algorithm == old.algorithm else ours.algorithm,
        features=tuple(sorted(features)),
    )


def _take(side: Revision, options: Options, manifest: bytes, origin: Path | None, offline: bool) -> tuple[Files, Files]:
    """Convert a side to merged options; return its and emitted files."""
    if side.lock is None:
        return side.files, {}
    present = side.lock.options
    request = UpgradeRequest(
        options.verl,
        options.engine,
        options.algorithm,
        tuple(sorted(set(options.features) - set(present.features))),
        tuple(sorted(set(present.features) - set(options.features))),
    )
    files = side.files if not manifest else {**side.files, OWN_MANIFEST: manifest}
    with tempfile.TemporaryDirectory(prefix="vextract-merge-") as name:
        folder = Path(name) / "project"
        for path, data in files.items():
            place = disk.gate(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        try:
            prepared = upgrade.prepare(folder, request, origin=origin, offline=offline)
            if prepared.changes_anything:
                upgrade.write(folder, prepared)
        except VextractError as error:
            raise CheckFailed(f"{side.name}: {error.message}", hint=error.hint, details=error.details) from None
        left = (path.relative_to(folder).as_posix() for path in readers.list_files_below(folder))
        kept = {path for path in left if not path.startswith(".vextract/") or path in _OURS or path in files}
        emitted = {file.path: file.data for file in prepared.generated.tree}
        return {path: (folder / path).read_bytes() for path in sorted(kept)}, emitted


def _merge_files(
    before: Files, ours: Files, theirs: Files, labels: Labels
) -> tuple[dict[str, bytes], dict[str, tuple[int, ...]]]:
    files: dict[str, bytes] = {}
    conflicts: dict[str, tuple[int, ...]] = {}
    for path in sorted({*ours, *theirs} - set(_OURS)):
        was, mine, new = (side.get(path) for side in (before, ours, theirs))
        data: bytes | None = mine if mine == new or new == was or path.endswith(NOTE_SUFFIX) else new
        if was not in (mine, new) and mine != new:
            if mine is None or new is None or not merge.is_mergeable(was or b"", mine, new):
                data, conflicts[path] = mine if mine is not None else new, ()
            else:
                data = merge_file(path, was or b"", mine, new, labels).data
        if data is None:
            continue
        files[path] = data
        if merge.find_first_conflict(data, was or b""):
            marks = merge.find_marker_lines(data)
            conflicts[path] = tuple(number for number, line in marks if line.startswith(b"<"))
    return files, conflicts


def _read(project: Path, revision: str, name: str) -> Revision:
    """Read a commit's files of a project."""
    listed = git.ask(project, "ls-tree", "-r", "-z", revision) or b""
    entries = [os.fsdecode(line).partition("\t") for line in listed.split(b"\0") if line]
    fields = {path: head.split() for head, _, path in entries if head.startswith("100")}
    given = "".join(f"{field[2]}\n" for field in fields.values()).encode()
    data, files, done = git.ask(project, "cat-file", "--batch", given=given) or b"", {}, 0
    for path in fields:
        start = data.index(b"\n", done) + 1
        done = start + int(data[done:start].split()[2])
        files[path], done = data[start:done], done + 1
    return Revision(name, files, {path: field[0] for path, field in fields.items()})


def _resolve_revision(project: Path, name: str) -> str:
    commit = _ask(project, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if not commit:
        raise UsageError(f"{name}: Git knows no such commit", hint="`git branch --all` lists the branches")
    return commit


def _ask(project: Path, *arguments: str) -> str:
    """Return what Git says, as text; "" where it has nothing."""
    answer = git.ask(project, *arguments, none_found=1)
    if answer is None:
        raise UsageError(f"{project}: not in a Git work tree", hint="branches are Git's: `git init` makes one")
    return os.fsdecode(answer).removesuffix("\n")
