"""Read `vextract.toml`, and write changes of `vextract add` to it."""

from __future__ import annotations

from pathlib import Path

from extractor.pipeline.plan import Action, Reason, Verdict
from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.manifest import OWN_MANIFEST
from extractor.values.tree import FileKind


def read_own_manifest(path: Path, *, missing: bool = True) -> str:
    """Return the text of a `vextract.toml`.

    Args:
        path: Of the file.
        missing: Return an empty text where it is not there.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return readers.read_text(path)
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            return ""
        raise UsageError(f"{path}: {error.strerror}", hint=f"give a {OWN_MANIFEST}, a text in UTF-8") from None


def write_own_manifest(before: str, after: str) -> list[Action]:
    """Return the verdict on `vextract.toml` where its text changes."""
    if before == after:
        return []
    verdict, reason = (Verdict.MERGE, Reason.ASKED) if before else (Verdict.ADD, Reason.NEW)
    return [Action(OWN_MANIFEST, verdict, FileKind.HOOK, reason, after.encode())]
