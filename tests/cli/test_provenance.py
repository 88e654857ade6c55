"""`vextract sbom` and `verify --provenance`: what they say is so, and nothing else passes."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from extractor.project import base, lock
from extractor.values.tree import FileKind
from tests.cli.conftest import Result, relock

pytestmark = pytest.mark.usefixtures("verl")
CORE = "toy/vendored/algorithms/core_algos.py"


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def test_the_bill_of_materials_is_valid_spdx_and_true(run: Callable[..., Result], project: Path) -> None:
    (project / CORE).write_text((project / CORE).read_text() + "# mine\n")
    (project / "toy/vendored/protocol.py").unlink()
    (project / "toy/own-Größe.py").write_text("pass\n")
    result = run("sbom", project)
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert validate_full_spdx_document(JsonLikeDictParser().parse(document)) == []

    locked = lock.read(project)
    said = {file["fileName"].removeprefix("./"): file for file in document["files"]}
    entries = {file.path: file for file in locked.files}
    assert said.keys() == (entries.keys() - {"toy/vendored/protocol.py"}) | {"toy/own-Größe.py"}
    assert any("fix " in change for entry in locked.files for change in entry.changes)
    for path, file in said.items():
        entry = entries.get(path)
        assert file["checksums"][1]["checksumValue"] == digest(project / path)
        assert file["comment"].endswith("Changed since by the owner.") is (path == CORE)
        vendored = entry is not None and entry.kind is FileKind.VENDORED
        assert (file["licenseConcluded"] == "Apache-2.0") is vendored
        assert not vendored or f"Vendored from verl 0.6.1: {entry.upstream_path}" in file["comment"]
        changed = f"Changed by vextract: {'; '.join(entry.changes)}." if entry is not None and entry.changes else ""
        assert changed in file["comment"]
    assert said["toy/own-Größe.py"]["comment"] == "The owner's: vextract has not written it."
    packages = {package["name"]: package for package in document["packages"]}
    assert packages["verl"]["checksums"] == [{"algorithm": "SHA256", "checksumValue": locked.source_sha256}]
    assert packages["verl"]["packageFileName"] == "verl-0.6.1-py3-none-any.whl"
    assert packages["verl"]["licenseDeclared"] == "Apache-2.0"
    assert "not there: toy/vendored/protocol.py" in packages["toy"]["comment"]
    related = [item for item in document["relationships"] if item["relationshipType"] == "GENERATED_FROM"]
    from_verl = {item["comment"] for item in related if "comment" in item}
    assert from_verl == {file.upstream_path for file in locked.files if file.upstream_path and file.path in said}
    # Every pin, with every digest that pip would accept.
    lines = [line for line in (project / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    depended = {item["relatedSpdxElement"] for item in document["relationships"] if "DEPENDS_ON" in item.values()}
    pins = [package for package in document["packages"] if package["SPDXID"] in depended]
    assert len(pins) == len(lines) > 60
    for package, line in zip(pins, lines, strict=True):
        digests = [digest.strip() for digest in line.split("--hash=sha256:")[1:]]
        assert line.startswith(f"{package['name']}=={package['versionInfo']} ")
        assert [item["checksumValue"] for item in package["checksums"]] == digests != []
    # No other file is read through a link.
    secret = project.parent / "secret"
    secret.write_text("secret")
    (project / CORE).unlink()
    for link in ("toy/linked.py", CORE):
        (project / link).symlink_to(secret)
    changed = run("sbom", project, code=0).out
    assert digest(secret) not in changed
    assert json.loads(changed)["documentNamespace"] != document["documentNamespace"]


def test_a_project_is_what_it_says(run: Callable[..., Result], project: Path) -> None:
    (project / CORE).write_text((project / CORE).read_text() + "# mine\n")
    result = run("verify", project, "--provenance", "--json", code=0)
    checks = {check["name"]: check for check in json.loads(result.out)["checks"]}
    said = {name: check["status"] for name, check in checks.items()}
    assert said == {**dict.fromkeys(("source", "emitted", "base"), "ok"), "edits": "reported"}
    assert checks["edits"]["details"] == [f"edited: {CORE} (vendored)"]
    run("verify", project, "--provenance", "--strict", code=1)


def test_a_change_that_lock_and_base_agree_on_is_found(run: Callable[..., Result], project: Path) -> None:
    """The hashes of the project itself cannot tell: all of them were made to fit."""
    locked = lock.read(project)
    data = (project / CORE).read_bytes().replace(b"1e-8", b"1e-3")
    files = [replace(file, sha256=sha256(data).hexdigest()) if file.path == CORE else file for file in locked.files]
    emitted = base.read(project, locked)
    (project / CORE).write_bytes(data)
    (project / base.PATH).write_bytes(base.dump({**emitted, CORE: data}))
    relock(project, files=tuple(files))
    assert "1 edited" not in run("status", project).out
    result = run("verify", project, "--provenance", code=1)
    assert "failed    emitted" in result.out
    assert f"\n  {CORE}: sha256 {sha256(data).hexdigest()} in vextract.lock, " in result.out
    # Without hooks, with another source, and with other digests and changes of verl's files.
    (project / base.PATH).write_bytes(base.dump(emitted))
    files = [file for file in locked.files if file.kind is not FileKind.HOOK]
    files = [replace(file, upstream_sha256=None, changes=("none",)) for file in files]
    relock(project, files=tuple(files), source_sha256="0" * 64)
    result = run("verify", project, "--provenance", "-v", code=1)
    for said in (
        "sha256 " + "0" * 64,
        "upstream_sha256 None in vextract.lock, ",
        f"{CORE}: changes ('none',) in vextract.lock, ('dropped ",
        "toy/custom/reward_manager.py: only in the project as generated again",
    ):
        assert said in result.out, result.out
