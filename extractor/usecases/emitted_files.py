"""Restore a project's emitted bytes, from its base or by regenerating."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from extractor import __version__
from extractor.project import base
from extractor.project.lock import Lock
from extractor.values.errors import CheckFailed
from extractor.values.shell import write_pip_command

if TYPE_CHECKING:
    from extractor.pipeline.generate import Generated
    from extractor.pipeline.source import Source
    from extractor.values.manifest import Manifest


def read_emitted(
    project: Path, lock: Lock, *, origin: Path | None = None, offline: bool = False
) -> tuple[Mapping[str, bytes], str | None]:
    """Return emitted bytes by path, and any damage to the base.

    Args:
        origin: Where verl comes from, as in `open_source`; it is needed only where the base is not intact.

    Raises:
        CheckFailed: this vextract does not emit what the lock says was emitted.
    """
    try:
        return base.read(project, lock), None
    except CheckFailed as error:
        damage = error.message
    again = regenerate(lock, origin=origin, offline=offline)
    files = base.collect_from_tree(again.tree)
    if different := list_differences(lock, files):
        more = f" and {len(different) - 1} more" if len(different) > 1 else ""
        hint = "restore .vextract/base.zip and vextract.lock from version control"
        if again.source.sha256 != lock.source_sha256:
            made = f"the project was made from another source, a {lock.source_kind} ({lock.source_sha256[:12]})"
            hint = f"{made}: pass --from"
        elif lock.vextract != __version__:
            wrote = write_pip_command(f"vextract=={lock.vextract}")
            hint = f"use the vextract that wrote it: {wrote}; or restore .vextract/base.zip"
        raise CheckFailed(f"this project cannot be restored byte for byte: {different[0]}{more}", hint=hint)
    return files, damage


def regenerate(lock: Lock, *, origin: Path | None = None, offline: bool = False) -> Generated:
    """Generate a project's files again from the options in its lock.

    Raises:
        SourceError: verl is not available.
    """
    from extractor.pipeline.generate import generate

    manifest, source = open_upstream(lock, origin=origin, offline=offline)
    return generate(lock.options, source, manifest)


def make_lock(generated: Generated) -> Lock:
    """Return the lock of a generated project."""
    source, borrowed_from = generated.source, generated.manifest.borrowed_from
    return Lock.of(
        generated.tree,
        generated.options,
        vextract=__version__,
        source_kind=source.kind,
        source_sha256=source.sha256,
        borrowed_from=borrowed_from,
    )


def open_upstream(lock: Lock, *, origin: Path | None = None, offline: bool = False) -> tuple[Manifest, Source]:
    """Open the release of a project; infer a missing manifest again.

    Raises:
        SourceError: verl is not available.
    """
    from extractor.pipeline.source import open_source
    from extractor.values import releases

    if lock.borrowed_from is None:
        manifest = releases.load(lock.options.verl)
        return manifest, open_source(manifest.pin, origin, offline=offline)
    from extractor.usecases.draft import attempt

    tried = attempt(lock.options.verl, lock.borrowed_from, origin, offline=offline)
    return tried.manifest, tried.new


def list_differences(lock: Lock, files: Mapping[str, bytes]) -> list[str]:
    """Return differences between generated files and the lock, a line each."""
    old, new = base.expected(lock), {path: sha256(data).hexdigest() for path, data in files.items()}
    changed = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
    wrote, now = f"vextract {lock.vextract} wrote", f"this vextract ({__version__}) emits"
    return [f"{path}: {wrote} {old.get(path, 'none')[:12]}, {now} {new.get(path, 'none')[:12]}" for path in changed]
