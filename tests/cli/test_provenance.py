"""`vextract sbom` and `verify --provenance`: what they say is so, and nothing else passes."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from extractor.pipeline.generate import generate
from extractor.project import base, lock
from extractor.project.lock import Lock
from extractor.values import releases
from extractor.values.tree import FileKind
from tests.cli.conftest import Result
from tests.releases import source_of

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
    made = generate(locked.options, source_of("0.6.1"), releases.load("0.6.1"))
    changes = {f"toy/{item.path}": item.changes for item in made.emitted}
    assert any("fix " in change for each in changes.values() for change in each)
    for path, file in said.items():
        entry = entries.get(path)
        assert file["checksums"][1]["checksumValue"] == digest(project / path)
        assert file["comment"].endswith("Changed since by the owner.") is (path == CORE)
        vendored = entry is not None and entry.kind is FileKind.VENDORED
        assert (file["licenseConcluded"] == "Apache-2.0") is vendored
        assert not vendored or f"Vendored from verl 0.6.1: {entry.upstream_path}" in file["comment"]
        assert f"Changed by vextract: {'; '.join(changes[path])}." in file["comment"] if changes.get(path) else True
    assert said["toy/own-Größe.py"]["comment"] == "The owner's: vextract has not written it."
    packages = {package["name"]: package for package in document["packages"]}
    assert packages["verl"]["checksums"] == [{"algorithm": "SHA256", "checksumValue": locked.source_sha256}]
    assert packages["verl"]["packageFileName"] == "verl-0.6.1-py3-none-any.whl"
    assert packages["verl"]["licenseDeclared"] == "Apache-2.0"
    assert "not there: toy/vendored/protocol.py" in packages["toy"]["comment"]
    from_verl = {
        item["comment"]
        for item in document["relationships"]
        if item["relationshipType"] == "GENERATED_FROM" and "comment" in item
    }
    assert from_verl == {file.upstream_path for file in locked.files if file.upstream_path and file.path in said}
    # Every pin, with every digest that pip would accept.
    lines = [line for line in (project / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    depended = {item["relatedSpdxElement"] for item in document["relationships"] if "DEPENDS_ON" in item.values()}
    pins = [package for package in document["packages"] if package["SPDXID"] in depended]
    assert len(pins) == len(lines) > 60
    for package, line in zip(pins, lines, strict=True):
        assert line.startswith(f"{package['name']}=={package['versionInfo']} ")
        digests = [digest.strip() for digest in line.split("--hash=sha256:")[1:]]
        assert [item["checksumValue"] for item in package["checksums"]] == digests != []


def test_the_bill_of_materials_is_a_function_of_the_project(
    run: Callable[..., Result], project: Path, tmp_path: Path
) -> None:
    plain = run("sbom", project).out
    assert run("sbom", project, "--output", tmp_path / "sbom.json").out == ""
    assert (tmp_path / "sbom.json").read_text() == plain
    assert json.loads(plain)["creationInfo"]["created"] == "1980-01-01T00:00:00Z"
    run("sbom", project, "-o", tmp_path / "no/such/folder.json", code=2)
    # No other file is read through a link.
    (tmp_path / "secret").write_text("secret")
    (project / "toy/linked.py").symlink_to(tmp_path / "secret")
    (project / CORE).unlink()
    (project / CORE).symlink_to(tmp_path / "secret")
    changed = run("sbom", project, code=0).out
    assert digest(tmp_path / "secret") not in changed
    assert json.loads(changed)["documentNamespace"] != json.loads(plain)["documentNamespace"]


def test_a_project_is_what_it_says(run: Callable[..., Result], project: Path) -> None:
    (project / CORE).write_text((project / CORE).read_text() + "# mine\n")
    result = run("verify", project, "--provenance", "--json", code=0)
    checks = {check["name"]: check for check in json.loads(result.out)["checks"]}
    said = {name: check["status"] for name, check in checks.items()}
    assert said == {**dict.fromkeys(("source", "emitted", "base"), "ok"), "edits": "reported"}
    assert checks["edits"]["details"] == [f"edited: {CORE} (vendored)"]
    run("verify", project, "--provenance", "--strict", code=1)
    # So is one that was upgraded, edits and all.
    run("upgrade", project, "--with", "lora", code=0)
    run("verify", project, "--provenance", code=0)


def rewritten(project: Path, change: Callable[[Lock], Lock], files: dict[str, bytes] | None = None) -> None:
    """Put a lock there that agrees with itself, and with the base and the files beside it."""
    locked = lock.read(project)
    held = {**base.read(project, locked), **(files or {})}
    (project / lock.NAME).write_bytes(lock.dump(change(locked)))
    (project / base.PATH).write_bytes(base.dump(held))
    for path, data in (files or {}).items():
        (project / path).write_bytes(data)


def test_a_change_that_lock_and_base_agree_on_is_found(run: Callable[..., Result], project: Path) -> None:
    """The hashes of the project itself cannot tell: all of them were made to fit."""
    data = (project / CORE).read_bytes().replace(b"1e-8", b"1e-3")

    def forged(locked: Lock) -> Lock:
        files = (replace(file, sha256=sha256(data).hexdigest()) if file.path == CORE else file for file in locked.files)
        return replace(locked, files=tuple(files))

    rewritten(project, forged, {CORE: data})
    assert "1 edited" not in run("status", project).out
    result = run("verify", project, "--provenance", code=1)
    assert "failed    emitted" in result.out
    assert f"\n  {CORE}: sha256 {sha256(data).hexdigest()} in vextract.lock, " in result.out


def otherwise(locked: Lock) -> Lock:
    """A lock with other files: without hooks, digests of verl's files, and what was changed in them."""
    files = (file for file in locked.files if file.kind is not FileKind.HOOK)
    return replace(locked, files=tuple(replace(file, upstream_sha256=None, changes=("none",)) for file in files))


# What a lock says instead, the check that fails, and its details.
STORIES: tuple[tuple[Callable[[Lock], Lock], str, tuple[str, ...]], ...] = (
    (lambda it: replace(it, source_sha256="0" * 64), "source", ("sha256 " + "0" * 64,)),
    (
        lambda it: replace(it, options=replace(it.options, features=("lora",))),
        "emitted",
        ("pyproject.toml: sha256 ",),
    ),
    (lambda it: replace(it, vextract="0.0.9", files=it.files[1:]), "emitted", ("pip install vextract==0.0.9",)),
    (
        otherwise,
        "emitted",
        (
            "upstream_sha256 None in vextract.lock, ",
            f"{CORE}: changes ('none',) in vextract.lock, ('dropped ",
            "toy/custom/reward_manager.py: only in the project as generated again",
        ),
    ),
)


@pytest.mark.parametrize(("change", "check", "said"), STORIES, ids=["source", "options", "vextract", "files"])
def test_a_lock_that_tells_another_story(
    run: Callable[..., Result], project: Path, change: Callable[[Lock], Lock], check: str, said: tuple[str, ...]
) -> None:
    rewritten(project, change)
    result = run("verify", project, "--provenance", "--json", code=1)
    failed = {item["name"]: item for item in json.loads(result.out)["checks"] if item["status"] == "failed"}
    assert check in failed
    for words in said:
        assert any(words in line for line in failed[check]["details"]), words
