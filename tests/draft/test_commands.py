"""scripts/draft.py, and `vextract new` for a release without a manifest."""

import json
import os
import shutil
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from extractor.pipeline.source import download
from extractor.project import base, lock
from extractor.values import releases
from tests.source import archives


def wheel_digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


@pytest.mark.thorough
def test_a_draft_goes_to_stdout_or_to_a_file(drafting, older: Path, wheel: Path, tmp_path: Path) -> None:
    shown = drafting("0.6.1", "--from", wheel)
    assert shown.code == 0
    assert shown.out.startswith("# What vextract knows about verl 0.6.1. A draft")
    assert "drafted: verl 0.6.1 after 0.5.0, " in shown.err
    out = tmp_path / "verl-0.6.1.toml"
    assert drafting("0.6.1", "--from", wheel, "--offline", "-o", out).code == 0
    assert out.read_text() == shown.out
    # What was drafted is a manifest of the release as it is.
    shutil.copy(out, older)
    assert releases.find_default() == "0.6.1"
    assert releases.load("0.6.1").pin.wheel_sha256 == wheel_digest(wheel)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["latest"], 2, "'latest' is no release number"),
        (["0.1.0"], 2, "older than all"),
        (["0.6.1", "--after", "0.6.1"], 2, "--after 0.6.1: no supported release before 0.6.1"),
        (["0.9.9", "-o", "there.toml"], 2, "there.toml: exists"),
        (["0.9.9", "--offline"], 3, "verl 0.9.9 is not in the cache"),
        (["0.9.9", "--from", "nothing"], 3, "no such file"),
        (["0.9.9", "--from", "."], 3, "not a source of verl"),
        (["0.9.9", "--from", "there.toml"], 3, "not a wheel"),
        (["0.9.9", "--from", "other-1.0-py3-none-any.whl"], 3, "not a source of verl"),
        (["0.9.9", "--from", "verl-0.9.9-py3-none-any.whl"], 3, "damaged archive"),
        (["0.9.9", "--from", "stand_in.whl"], 3, "verl 0.6.1, not 0.9.9"),
    ],
)
def test_what_cannot_be_drafted(
    drafting,
    empty_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("there.toml").write_text("keep = true\n")
    with zipfile.ZipFile("other-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("other/__init__.py", "")
    Path("verl-0.9.9-py3-none-any.whl").write_bytes(archives.wheel()[:-50])
    Path("stand_in.whl").write_bytes(archives.wheel())
    before = sorted(os.listdir(folder))
    result = drafting(*arguments)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "hint: " in result.err
    assert sorted(os.listdir(folder)) == before
    assert Path("there.toml").read_text() == "keep = true\n"


def test_a_release_without_manifest_is_reported_and_refused(run, older: Path, wheel: Path, tmp_path: Path) -> None:
    result = run("new", tmp_path / "toy", "--from", wheel)
    assert result.code == 2
    assert result.out.startswith("verl 0.6.1, tried with the manifest of 0.5.0: 20 parts of it do not hold\n")
    assert "  root                    roles.critic: verl.trainer.config:FSDPCriticConfig is gone\n" in result.out
    assert "      taken: verl.workers.config:FSDPCriticConfig (the same name, " in result.out
    assert "error: verl 0.6.1 is not supported by this vextract" in result.err
    assert "hint: `--experimental` tries the rest, untested" in result.err
    assert os.listdir(tmp_path) == []
    report = json.loads(run("new", tmp_path / "toy", "--from", wheel, "--json").out)
    assert (report["release"], report["manifest_of"], report["holds"]) == ("0.6.1", "0.5.0", False)
    assert len(report["findings"]) == 20


@pytest.mark.thorough
def test_experimental_makes_a_project_that_says_what_it_is(run, older: Path, wheel: Path, tmp_path: Path) -> None:
    result = run("new", tmp_path / "toy", "--from", wheel, "--experimental")
    assert result.code == 0
    assert "has no manifest: this project uses that of 0.5.0" in result.err
    assert "no digest of verl 0.6.1 is known" in result.err
    locked = lock.read(tmp_path / "toy")
    assert (locked.borrowed_from, locked.options.verl) == ("0.5.0", "0.6.1")
    assert locked.source_sha256 in result.err
    for name in ("README.md", "NOTICE"):
        assert "experimental" in (tmp_path / "toy" / name).read_text().lower()
    assert "experimental: made without a manifest of verl 0.6.1" in run("status", tmp_path / "toy").out
    assert json.loads(run("status", tmp_path / "toy", "--json").out)["manifest_of"] == "0.5.0"
    # Its files can be made once more, from the lock alone.
    (tmp_path / "toy" / base.PATH).unlink()
    assert run("sync", tmp_path / "toy", "--from", wheel).code == 0
    # The commands that need the release infer once more what was inferred for it.
    # What `new` has warned of is done as it says.
    assert "toy/vendored/utils/npu_utils.py:19: imports einops, which pyproject.toml does not require" in result.err
    asked = (tmp_path / "toy/pyproject.toml").read_text(encoding="utf-8")
    asked = asked.replace("dependencies = [\n", 'dependencies = [\n    "einops",\n', 1)
    (tmp_path / "toy/pyproject.toml").write_text(asked, encoding="utf-8")
    checked = run("verify", tmp_path / "toy", "--from", wheel, "--no-parity", "--python", sys.executable)
    assert checked.code == 0, checked.out
    assert "\nvendored/workers " in run("graph", tmp_path / "toy").out
    exported = run("export", tmp_path / "toy", "--from", wheel, "-o", tmp_path / "out")
    assert exported.code == 0, exported.err


def test_a_project_that_cannot_stand_is_not_made(
    run, older: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = "toy/workers/actor.py:9: imports toy.vendored.workers.dp_actor, which does not exist"
    monkeypatch.setattr("extractor.usecases.verify.closed_imports.import_problems", lambda *arguments: (problem,))
    result = run("new", tmp_path / "toy", "--from", wheel, "--experimental")
    assert result.code == 1
    assert f"no project of verl 0.6.1 can be made from what holds of the manifest of 0.5.0: {problem}" in result.err
    assert os.listdir(tmp_path) == []


def test_the_index_has_no_such_release(
    run, older: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(pin, into: Path) -> Path:
        raise download.SourceError("no connection: refused", hint="check the network")

    monkeypatch.setattr(download, "download_wheel", nothing)
    result = run("new", tmp_path / "toy", "--verl", "0.6.2")
    assert result.code == 3
    assert "verl 0.6.2 is not supported by this vextract, and its source could not be read: no connection" in result.err
    assert "supported: " in result.err

    def unknown(pin, into: Path) -> Path:
        raise download.SourceError("no version satisfies verl==0.6.2 (from versions: 0.6.1, 0.8.0.dev0)", hint="")

    monkeypatch.setattr(download, "download_wheel", unknown)
    result = run("new", tmp_path / "toy", "--verl", "0.6.2")
    assert "and the package index has no such release\nhint: did you mean 0.5.0? supported: " in result.err
    assert "0.8.0.dev0" not in result.err


@pytest.mark.thorough  # makes two drafts
def test_a_wheel_from_the_index_is_kept(
    drafting, older: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(wheel.parent.parent, cache)
    monkeypatch.setenv("VEXTRACT_CACHE_DIR", str(cache))
    monkeypatch.setattr(
        download,
        "download_wheel",
        lambda pin, into: Path(shutil.copy(wheel, into / "verl-0.6.1-py3-none-any.whl")),
    )
    first = drafting("0.6.1")
    assert first.code == 0
    assert drafting("0.6.1", "--offline").out == first.out


def test_a_directory_of_manifests_that_is_none(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VEXTRACT_MANIFESTS", str(tmp_path / "nothing"))
    result = run("versions")
    assert result.code == 2
    assert "VEXTRACT_MANIFESTS" in result.err
