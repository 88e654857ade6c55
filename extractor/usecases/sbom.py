"""Write a project's bill of materials: an SPDX 2.3 document."""

import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from extractor.project.lock import Lock
from extractor.usecases.status import FileStatus, read_status
from extractor.values import readers, releases
from extractor.values.tree import FileKind

# Documents are made without a clock: this is the first time that a zip archive can state.
CREATED = "1980-01-01T00:00:00Z"
APACHE = "Apache-2.0"
VERL, VEXTRACT, PROJECT = "SPDXRef-Package-verl", "SPDXRef-Package-vextract", "SPDXRef-Package-project"
_WHOSE = {
    FileKind.TEMPLATE: "Written by vextract, from a template; the owner may edit it.",
    FileKind.HOOK: "The owner's: written once by vextract, from a template.",
    None: "The owner's: vextract has not written it.",
}
_TEMPLATES = "What made the project; the files that are not verl's are made from its templates."
_LICENCE = {"licenseConcluded": APACHE, "licenseDeclared": APACHE}
_Element = dict[str, Any]


def write_sbom(project: Path, lock: Lock) -> _Element:
    """Return the SPDX document as JSON data; deterministic."""
    listed = [item for item in read_status(project, lock).files if (project / item.path).is_file()]
    files = {item: _make_file(project, item, lock) for item in listed if not (project / item.path).is_symlink()}
    missing = sorted({file.path for file in lock.files} - {item.path for item in files})
    pins = list(_read_pins(project / "requirements.lock"))
    document: _Element = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": lock.options.package,
        "creationInfo": {"created": CREATED, "creators": [f"Tool: vextract-{lock.vextract}"]},
        "packages": [
            _make_project_package(lock, list(files.values()), missing),
            _make_verl_package(lock),
            _make_package(VEXTRACT, "vextract", lock.vextract, **_LICENCE, comment=_TEMPLATES),
            *pins,
        ],
        "files": list(files.values()),
        "relationships": list(_relate_all(lock, files, pins)),
    }
    content = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    name = uuid.uuid5(uuid.NAMESPACE_OID, content)
    return {**document, "documentNamespace": f"https://spdx.org/spdxdocs/{lock.options.package}-{name}"}


def _make_package(identifier: str, name: str, version: str, **more: Any) -> _Element:
    place = {"downloadLocation": "NOASSERTION", "filesAnalyzed": False}
    return {"SPDXID": identifier, "name": name, "versionInfo": version, **place, **more}


def _make_project_package(lock: Lock, files: list[_Element], missing: list[str]) -> _Element:
    options = lock.options
    digests = sorted(file["checksums"][0]["checksumValue"] for file in files)
    code = hashlib.sha1("".join(digests).encode(), usedforsecurity=False).hexdigest()
    said = f"engine {options.engine}, algorithm {options.algorithm}, recipe {options.recipe}"
    said += f", features {', '.join(options.features)}" if options.features else ""
    lost = f" Listed in vextract.lock, and not there: {', '.join(missing)}." if missing else ""
    return _make_package(
        PROJECT,
        options.package,
        "NOASSERTION",
        filesAnalyzed=True,
        packageVerificationCode={"packageVerificationCodeValue": code},
        comment=f"Made by vextract {lock.vextract} from verl {options.verl}: {said}.{lost}",
    )


def _make_verl_package(lock: Lock) -> _Element:
    release, kind = lock.options.verl, lock.source_kind
    pin = releases.load(release).pin if release in releases.list_supported() else None
    is_pinned = pin is not None and lock.source_sha256 == pin.wheel_sha256
    what = "the wheel" if kind == "wheel" else f"a {kind}: of its Python files and licence"
    return _make_package(
        VERL,
        "verl",
        release,
        **({"packageFileName": pin.wheel_filename} if pin is not None and is_pinned else {}),
        checksums=[_make_checksum("SHA256", lock.source_sha256)],
        homepage="https://github.com/volcengine/verl",
        **_LICENCE,
        comment=f"What the vendored files were taken from. The checksum is that of {what}.",
        externalRefs=[_write_purl("verl", release)] if kind == "wheel" else [],
    )


def _read_pins(path: Path) -> Iterator[_Element]:
    """Yield an SPDX package per exact version in pip's lock file."""
    text = readers.read_text(path).replace("\\\n", " ") if path.is_file() else ""
    for line in text.splitlines():
        wanted, *digests = re.split(r"\s--hash=sha256:", line)
        try:
            requirement = Requirement(wanted.strip())
        except InvalidRequirement:
            continue
        for version in [item.version for item in requirement.specifier if item.operator in ("==", "===")][:1]:
            where = f" Installed where {requirement.marker}." if requirement.marker else ""
            yield _make_package(
                f"SPDXRef-Pin-{_identify(f'{requirement.name}-{version}', str(requirement.marker or ''))}",
                requirement.name,
                version,
                checksums=[_make_checksum("SHA256", digest.strip()) for digest in digests],
                comment=f"Pinned in requirements.lock, with {len(digests)} digests of files that pip may take.{where}",
                externalRefs=[_write_purl(requirement.name, version)],
            )


def _make_file(project: Path, item: FileStatus, lock: Lock) -> _Element:
    data, locked = (project / item.path).read_bytes(), lock.file(item.path)
    said, licence = _WHOSE.get(item.kind, ""), "NOASSERTION"
    if locked is not None and item.kind is FileKind.VENDORED:
        changes = "; ".join(locked.changes)
        upstream = f"{locked.upstream_path}" + (f" (sha256 {locked.upstream_sha256})" if locked.upstream_sha256 else "")
        done = f"Changed by vextract: {changes}." if changes else "Not changed by vextract."
        said, licence = f"Vendored from verl {lock.options.verl}: {upstream}. {done}", APACHE
    sha256 = hashlib.sha256(data).hexdigest()
    sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    return {
        "SPDXID": f"SPDXRef-File-{_identify(item.path)}",
        "fileName": f"./{item.path}",
        "checksums": [_make_checksum("SHA1", sha1), _make_checksum("SHA256", sha256)],
        "licenseConcluded": licence,
        "comment": said + (" Changed since by the owner." if locked is not None and locked.sha256 != sha256 else ""),
    }


def _relate_all(lock: Lock, files: dict[FileStatus, _Element], pins: list[_Element]) -> Iterator[_Element]:
    yield _relate("SPDXRef-DOCUMENT", "DESCRIBES", PROJECT)
    yield _relate(PROJECT, "GENERATED_FROM", VERL)
    yield _relate(VEXTRACT, "BUILD_TOOL_OF", PROJECT)
    for item, file in files.items():
        locked = lock.file(item.path)
        yield _relate(PROJECT, "CONTAINS", file["SPDXID"])
        if item.kind is FileKind.VENDORED:
            origin = locked.upstream_path if locked is not None else None
            yield {**_relate(file["SPDXID"], "GENERATED_FROM", VERL), **({"comment": origin} if origin else {})}
        elif item.kind is not None:
            yield _relate(file["SPDXID"], "GENERATED_FROM", VEXTRACT)
    yield from (_relate(PROJECT, "DEPENDS_ON", pin["SPDXID"]) for pin in pins)


def _relate(element: str, how: str, other: str) -> _Element:
    return {"spdxElementId": element, "relationshipType": how, "relatedSpdxElement": other}


def _make_checksum(algorithm: str, digest: str) -> _Element:
    return {"algorithm": algorithm, "checksumValue": digest}


def _write_purl(name: str, version: str) -> _Element:
    locator = f"pkg:pypi/{canonicalize_name(name)}@{quote(version, safe='')}"
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}


def _identify(readable: str, more: str = "") -> str:
    """Convert text to a valid, unique SPDX identifier."""
    digest = hashlib.sha256(f"{readable}\n{more}".encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9.]+', '-', readable)}-{digest}"
