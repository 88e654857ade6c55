"""Write an in-toto statement (SLSA provenance)."""

from __future__ import annotations

from typing import Any

from extractor.project.lock import Lock, LockedFile
from extractor.usecases.provenance.sbom import purl

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "urn:vextract:project:v1"


def statement(lock: Lock, *, wheel: str | None) -> dict[str, Any]:
    """Write the statement of a lock; equal locks give equal statements.

    Args:
        lock: The lock; the subjects are its files as they were emitted.
        wheel: The name of verl's file on the package index, where the project was made from that.
    """
    options = lock.options
    return {
        "_type": TYPE,
        "subject": [_subject(file) for file in lock.files],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": {
                    "package": options.package,
                    "verl": options.verl,
                    "engine": options.engine,
                    "algorithm": options.algorithm,
                    "recipe": options.recipe,
                    "features": list(options.features),
                    "manifest_of": lock.borrowed_from or options.verl,
                },
                "resolvedDependencies": [
                    {
                        "name": wheel or f"verl {options.verl} ({lock.source_kind})",
                        "uri": purl("verl", options.verl),
                        "digest": {"sha256": lock.source_sha256},
                        "annotations": {"source": lock.source_kind},
                    }
                ],
            },
            "runDetails": {
                "builder": {"id": purl("vextract", lock.vextract), "version": {"vextract": lock.vextract}},
            },
        },
    }


def _subject(file: LockedFile) -> dict[str, Any]:
    notes = {"kind": file.kind.value, "upstream": file.upstream_path, "upstream_sha256": file.upstream_sha256}
    return {
        "name": file.path,
        "digest": {"sha256": file.sha256},
        "annotations": {key: value for key, value in notes.items() if value is not None},
    }
