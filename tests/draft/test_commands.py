"""scripts/draft.py, and `vextract new` for a release without a manifest."""

import json
import os
import shutil
import sys
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from unittest.mock import Mock

import pytest

from benchmarks import drafts
from extractor.pipeline.generate import generate
from extractor.pipeline.source import Source, download
from extractor.project import base, lock
from extractor.usecases.draft import Kind, ManifestFit, fit
from extractor.values import releases
from extractor.values.errors import UsageError
from extractor.values.manifest import Role, combine, parse_manifest
from extractor.values.options import Options
from scripts.draft import draft, infer_renamed_keys
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


WRONG = (
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
)


def test_what_cannot_be_drafted(drafting, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("there.toml").write_text("keep = true\n")
    with zipfile.ZipFile("other-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("other/__init__.py", "")
    Path("verl-0.9.9-py3-none-any.whl").write_bytes(archives.wheel()[:-50])
    Path("stand_in.whl").write_bytes(archives.wheel())
    before = sorted(os.listdir(folder))
    for arguments, code, message in WRONG:
        result = drafting(*arguments)
        assert (result.code, result.out) == (code, "")
        assert message in result.err
        assert "hint: " in result.err
    assert sorted(os.listdir(folder)) == before
    assert Path("there.toml").read_text() == "keep = true\n"


def test_a_release_without_manifest_is_refused(run, older: Path, wheel: Path, tmp_path: Path) -> None:
    result = run("new", tmp_path / "toy", "--from", wheel, code=2)
    assert "error: verl 0.6.1 is not supported by this vextract" in result.err
    assert "hint: `--experimental` makes a project of the parts that fit" in result.err
    assert os.listdir(tmp_path) == []


@pytest.mark.thorough
def test_experimental_makes_a_project_that_says_what_it_is(run, older: Path, wheel: Path, tmp_path: Path) -> None:
    result = run("new", tmp_path / "toy", "--from", wheel, "--experimental", code=0)
    assert "has no manifest, so that of 0.5.0 is used" in result.err
    assert "root                    roles.critic: verl.trainer.config:FSDPCriticConfig is gone" in result.err
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
    run("sync", tmp_path / "toy", "--from", wheel, code=0)
    # The commands that need the release infer once more what was inferred for it.
    # What `new` has warned of is done as it says.
    assert "toy/vendored/utils/npu_utils.py:19: imports einops, which pyproject.toml does not require" in result.err
    asked = (tmp_path / "toy/pyproject.toml").read_text(encoding="utf-8")
    asked = asked.replace("dependencies = [\n", 'dependencies = [\n    "einops",\n', 1)
    (tmp_path / "toy/pyproject.toml").write_text(asked, encoding="utf-8")
    checked = run("verify", tmp_path / "toy", "--from", wheel, "--no-parity", "--python", sys.executable)
    assert checked.code == 0, checked.out
    exported = run("export", tmp_path / "toy", "--from", wheel, "-o", tmp_path / "out")
    assert exported.code == 0, exported.err


def test_a_project_that_cannot_stand_is_not_made(
    run, older: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = "toy/workers/actor.py:9: imports toy.vendored.workers.dp_actor, which does not exist"
    monkeypatch.setattr("extractor.usecases.verify.closed_imports.import_problems", lambda *arguments: (problem,))
    result = run("new", tmp_path / "toy", "--from", wheel, "--experimental", code=1)
    assert f"no project of verl 0.6.1 can be made from what holds of the manifest of 0.5.0: {problem}" in result.err
    assert os.listdir(tmp_path) == []


def test_the_index_has_no_such_release(
    run, older: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(problem: str) -> str:
        monkeypatch.setattr(download, "download_wheel", Mock(side_effect=download.SourceError(problem, hint="")))
        return str(run("new", tmp_path / "toy", "--verl", "0.6.2", "--experimental", code=3).err)

    said = asked("no connection: refused")
    assert "verl 0.6.2 is not supported by this vextract, and its source could not be read: no connection" in said
    assert "supported: " in said
    said = asked("no version satisfies verl==0.6.2 (from versions: 0.6.1, 0.8.0.dev0)")
    assert "and the package index has no such release\nhint: did you mean 0.5.0? supported: " in said
    assert "0.8.0.dev0" not in said


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
    assert "VEXTRACT_MANIFESTS" in run("versions", code=2).err


# 0.6.1 held against the manifest of 0.5.0: what is known of these two must be found.


def subjects(found: ManifestFit, kind: Kind) -> list[str]:
    return [item.subject for item in found.findings if item.kind is kind]


def test_what_no_longer_holds_is_found(found: ManifestFit) -> None:
    assert subjects(found, Kind.ROOT) == ["verl.trainer.config:FSDPCriticConfig"]
    assert subjects(found, Kind.SIGNATURE) == ["verl.trainer.config.algorithm:AlgoConfig"]
    assert subjects(found, Kind.FIX_EDIT) == ["actor-autocast-dtype", "profiler-without-gpu"]
    assert len(subjects(found, Kind.CUT)) == len(subjects(found, Kind.FIX_SWAP)) == 8
    item = next(item for item in found.findings if item.kind is Kind.ROOT)
    assert item.moved == "verl.workers.config.critic:FSDPCriticConfig"
    role = next(role for role in found.manifest.roles if role.name == "critic")
    assert item.moved in role.symbols
    assert item.subject not in role.symbols
    # Fixes follow their code, or go.
    fixes = {fix.id: fix for fix in found.manifest.fixes}
    assert "actor-autocast-dtype" not in fixes
    assert fixes["profiler-without-gpu"].edits[0].count == 4
    assert fixes["critic-autocast-dtype"] in releases.load("0.5.0").fixes


@pytest.mark.thorough
def test_a_release_holds_against_itself(verl_0_6_1: Source) -> None:
    found = fit("0.6.1", verl_0_6_1, verl_0_6_1)
    assert not found.findings
    made = draft(found)
    assert not made.todo
    assert set(made.stated) == {"schema", "release", "follows", "source"}
    assert "TODO" not in made.text


def test_two_files_for_one_place_are_named_with_what_to_do(verl_0_6_1: Source) -> None:
    manifest = releases.load("0.6.1")
    for place, other in (
        ("training/trainer.py", "a template of vextract's"),
        ("vendored/algorithms/core_algos.py", "verl/trainer/ppo/core_algos.py"),
    ):
        manifest = replace(manifest, layout={**manifest.layout, "protocol.py": place})
        with pytest.raises(UsageError) as raised:
            generate(Options("toy", "0.6.1"), verl_0_6_1, manifest)
        assert raised.value.message.startswith(f"manifest of verl 0.6.1: toy/{place} would come from ")
        assert other in raised.value.message
        assert "verl/protocol.py" in raised.value.message
        assert "in [layout]" in raised.value.hint


def in_order(roles: tuple[Role, ...]) -> list[tuple[str, list[str]]]:
    return [(role.name, sorted(role.symbols)) for role in roles]


def test_the_draft_is_a_manifest(found: ManifestFit) -> None:
    made = draft(found, ("toy/x.py:3: imports y, which does not exist",))
    real = releases.load("0.6.1")
    whole = parse_manifest(combine(releases.merge_predecessors("0.5.0"), made.stated), "draft")
    assert whole.pin.wheel_sha256 == real.pin.wheel_sha256
    assert in_order(whole.roles) == in_order(found.manifest.roles)
    assert whole.fixes == found.manifest.fixes
    assert whole.features == found.manifest.features
    assert whole.layout == found.manifest.layout
    assert {"features.remove_padding", "fixes"} <= set(made.stated["drop"])
    assert "# TODO: toy/x.py:3: imports y" in made.text
    assert made.todo
    # Every remark stands in the text once.
    flat = " ".join(line.removeprefix("#").strip() for line in made.text.splitlines())
    for note in made.notes:
        assert flat.count(" ".join(str(note).split())) == 1
    assert max(len(line) for line in made.text.splitlines() if line.startswith("#")) <= 120


def test_renamed_keys_are_inferred(verl_0_5_0: Source, verl_0_6_1: Source) -> None:
    keys = infer_renamed_keys(verl_0_5_0, verl_0_6_1)
    assert keys["ray_init.timeline_json_file"] == "ray_kwargs.timeline_json_file"
    known = releases.load("0.6.1").renamed_keys
    wrong = {key: place for key, place in keys.items() if known.get(key, place) != place}
    # Two tools have the same setting, and both have the old value.
    assert set(wrong) <= {"critic.profiler.discrete"}


@pytest.mark.thorough
@pytest.mark.parametrize("release", releases.list_supported()[1:])
def test_every_release_can_be_drafted_from_the_one_before(release: str) -> None:
    found = drafts.record(release)
    assert f"source.wheel_sha256: {releases.load(release).pin.wheel_sha256}" in found.inferred
    # A fix that upstream has made needless is kept, as long as what it edits is there.
    assert found.todo or all(line.startswith("drop.fixes") for line in found.by_hand)
