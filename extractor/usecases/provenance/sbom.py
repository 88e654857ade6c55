"""Write a bill of materials as an SPDX 2.3 document."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from extractor.usecases.provenance.facts import Facts, Pin, ProjectFile
from extractor.values.tree import FileKind

# The time of a document that is made without a clock: the first that a zip archive can state, as in the project's base.
EPOCH = 315532800
UNKNOWN = "NOASSERTION"
APACHE = "Apache-2.0"
VERL, VEXTRACT, PROJECT = "SPDXRef-Package-verl", "SPDXRef-Package-vextract", "SPDXRef-Package-project"
_WHOSE = {
    FileKind.TEMPLATE: "Written by vextract, from a template; the owner may edit it.",
    FileKind.HOOK: "The owner's: written once by vextract, from a template.",
    None: "The owner's: vextract has not written it.",
}


def sbom(facts: Facts, *, wheel: str | None, created: int = EPOCH) -> dict[str, Any]:
    """Write the document.

    Args:
        facts: The project.
        wheel: The name of verl's file on the package index, where the project was made from that.
        created: The time that the document states, in seconds since 1970.

    Returns:
        SPDX 2.3 as JSON knows it; equal projects give equal documents.
    """
    lock = facts.lock
    when = datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    tool = f"Tool: vextract-{lock.vextract}"
    document: dict[str, Any] = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": lock.options.package,
        "creationInfo": {"created": when, "creators": [tool]},
        "packages": [_project(facts), _verl(facts, wheel), _vextract(facts), *map(_pinned, facts.pins)],
        "files": [_file(file, facts, tool, when) for file in facts.files],
        "relationships": _relationships(facts),
    }
    content = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    name = uuid.uuid5(uuid.NAMESPACE_OID, content)
    document["documentNamespace"] = f"https://spdx.org/spdxdocs/{lock.options.package}-{name}"
    return document


def _package(identifier: str, name: str, version: str, **more: Any) -> dict[str, Any]:
    return {
        "SPDXID": identifier,
        "name": name,
        "versionInfo": version,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": UNKNOWN,
        "copyrightText": UNKNOWN,
        **more,
    }


def _project(facts: Facts) -> dict[str, Any]:
    lock = facts.lock
    digests = sorted(file.sha1 for file in facts.files)
    code = hashlib.sha1("".join(digests).encode(), usedforsecurity=False).hexdigest()
    choices = {"engine": lock.options.engine, "algorithm": lock.options.algorithm, "recipe": lock.options.recipe}
    said = ", ".join(f"{key} {value}" for key, value in choices.items())
    features = f", features {', '.join(lock.options.features)}" if lock.options.features else ""
    missing = f" Listed in vextract.lock, and not there: {', '.join(facts.missing)}." if facts.missing else ""
    return _package(
        PROJECT,
        lock.options.package,
        UNKNOWN,
        filesAnalyzed=True,
        packageVerificationCode={"packageVerificationCodeValue": code},
        licenseInfoFromFiles=sorted({_licence(file) for file in facts.files}),
        copyrightText=_lines(line for file in facts.files for line in file.copyright),
        primaryPackagePurpose="APPLICATION",
        comment=f"Made by vextract {lock.vextract} from verl {lock.options.verl}: {said}{features}.{missing}",
    )


def _verl(facts: Facts, wheel: str | None) -> dict[str, Any]:
    lock = facts.lock
    archive = lock.source_kind in ("wheel", "sdist")
    what = f"the {lock.source_kind}" if archive else f"a {lock.source_kind}: of its Python files and licence"
    vendored = [file for file in facts.files if file.kind is FileKind.VENDORED]
    return _package(
        VERL,
        "verl",
        lock.options.verl,
        **({"packageFileName": wheel} if wheel else {}),
        checksums=[_checksum("SHA256", lock.source_sha256)],
        homepage="https://github.com/volcengine/verl",
        licenseConcluded=APACHE,
        licenseDeclared=APACHE,
        copyrightText=_lines(line for file in vendored for line in file.copyright),
        primaryPackagePurpose="SOURCE",
        comment=f"What the vendored files were taken from. The checksum is that of {what}.",
        externalRefs=[_purl("verl", lock.options.verl)] if archive else [],
    )


def _vextract(facts: Facts) -> dict[str, Any]:
    return _package(
        VEXTRACT,
        "vextract",
        facts.lock.vextract,
        licenseConcluded=APACHE,
        licenseDeclared=APACHE,
        primaryPackagePurpose="APPLICATION",
        comment="What made the project; the files that are not verl's are made from its templates.",
    )


def _pinned(pin: Pin) -> dict[str, Any]:
    said = ["Pinned in requirements.lock."]
    if pin.marker:
        said.append(f"Installed where {pin.marker}.")
    said.append("One checksum for each file that pip may take." if pin.sha256 else "Its files have no digests there.")
    return _package(
        _pin_id(pin),
        pin.name,
        pin.version,
        checksums=[_checksum("SHA256", digest) for digest in pin.sha256],
        primaryPackagePurpose="LIBRARY",
        comment=" ".join(said),
        externalRefs=[_purl(pin.name, pin.version)],
    )


def _file(file: ProjectFile, facts: Facts, tool: str, when: str) -> dict[str, Any]:
    return {
        "SPDXID": _file_id(file),
        "fileName": f"./{file.path}",
        "fileTypes": ["SOURCE" if file.path.endswith(".py") else "TEXT" if file.kind else "OTHER"],
        "checksums": [_checksum("SHA1", file.sha1), _checksum("SHA256", file.sha256)],
        "licenseConcluded": _licence(file),
        "licenseInfoInFiles": [_licence(file)],
        "copyrightText": _lines(file.copyright),
        "comment": _said(file, facts),
        "annotations": [
            {
                "annotationType": "OTHER",
                "annotator": tool,
                "annotationDate": when,
                "comment": json.dumps(_record(file), sort_keys=True),
            }
        ],
    }


def _said(file: ProjectFile, facts: Facts) -> str:
    """Say whose a file is and what was done to it, to a person."""
    if file.kind is FileKind.VENDORED:
        done = f" Changed by vextract: {'; '.join(file.changes)}." if file.changes else " Not changed by vextract."
        upstream = f"{file.upstream}" + (f" (sha256 {file.upstream_sha256})" if file.upstream_sha256 else "")
        text = f"Vendored from verl {facts.lock.options.verl}: {upstream}.{done}"
    else:
        text = _WHOSE[file.kind]
    return text + (" Changed since by the owner." if file.edited else "")


def _record(file: ProjectFile) -> dict[str, Any]:
    """Say the same to a program."""
    return {
        "kind": file.kind.value if file.kind else "owner",
        "upstream": file.upstream,
        "upstream_sha256": file.upstream_sha256,
        "emitted_sha256": file.emitted,
        "present_sha256": file.sha256,
        "changed_by_vextract": list(file.changes),
        "changed_by_owner": file.edited,
    }


def _relationships(facts: Facts) -> list[dict[str, str]]:
    found = [
        _related("SPDXRef-DOCUMENT", "DESCRIBES", PROJECT),
        _related(PROJECT, "GENERATED_FROM", VERL),
        _related(VEXTRACT, "BUILD_TOOL_OF", PROJECT),
    ]
    for file in facts.files:
        found.append(_related(PROJECT, "CONTAINS", _file_id(file)))
        if file.kind is FileKind.VENDORED:
            found.append(_related(_file_id(file), "GENERATED_FROM", VERL, comment=file.upstream or ""))
        elif file.kind is not None:
            found.append(_related(_file_id(file), "GENERATED_FROM", VEXTRACT))
    found += [_related(PROJECT, "DEPENDS_ON", _pin_id(pin)) for pin in facts.pins]
    return found


def _related(element: str, how: str, other: str, comment: str = "") -> dict[str, str]:
    found = {"spdxElementId": element, "relationshipType": how, "relatedSpdxElement": other}
    return {**found, "comment": comment} if comment else found


def _licence(file: ProjectFile) -> str:
    return APACHE if file.kind is FileKind.VENDORED else UNKNOWN


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(sorted(set(lines))) or UNKNOWN


def _checksum(algorithm: str, digest: str) -> dict[str, str]:
    return {"algorithm": algorithm, "checksumValue": digest}


def _purl(name: str, version: str) -> dict[str, str]:
    return {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": purl(name, version),
    }


def purl(name: str, version: str) -> str:
    """Return the package URL of a distribution on PyPI."""
    return f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}@{quote(version, safe='')}"


def _pin_id(pin: Pin) -> str:
    return f"SPDXRef-Pin-{_identifier(f'{pin.name}-{pin.version}', pin.marker)}"


def _file_id(file: ProjectFile) -> str:
    return f"SPDXRef-File-{_identifier(file.path)}"


def _identifier(readable: str, more: str = "") -> str:
    """Turn a text into what SPDX lets an identifier hold, without two texts becoming one."""
    digest = hashlib.sha256(f"{readable}\n{more}".encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9.]+', '-', readable)}-{digest}"
