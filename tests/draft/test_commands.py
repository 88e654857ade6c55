"""scripts/draft.py, and `vextract new` for a release without a manifest."""

import ast
import json
import os
import shutil
import sys
from hashlib import sha256
from pathlib import Path
from unittest.mock import Mock

import pytest

from extractor.pipeline.source import Source, download
from extractor.project import base, lock
from extractor.usecases.draft import Kind, ManifestFit
from extractor.values import releases
from extractor.values.configtree.compose import read_mapping
from extractor.values.manifest import combine, parse_manifest
from scripts.draft import draft, infer_renamed_keys
from tests.source import archives


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
    assert releases.load("0.6.1").pin.wheel_sha256 == sha256(wheel.read_bytes()).hexdigest()


WRONG = (
    (["latest"], 2, "'latest' is no release number"),
    (["0.1.0"], 2, "older than all"),
    (["0.6.1", "--after", "0.6.1"], 2, "--after 0.6.1: no supported release before 0.6.1"),
    (["0.9.9", "-o", "there.toml"], 2, "there.toml: exists"),
    (["0.9.9", "--offline"], 3, "verl 0.9.9 is not in the cache"),
    (["0.9.9", "--from", "nothing"], 3, "no such file"),
    (["0.9.9", "--from", "there.toml"], 3, "not a wheel"),
    (["0.9.9", "--from", "verl-0.9.9-py3-none-any.whl"], 3, "damaged archive"),
    (["0.9.9", "--from", "stand_in.whl"], 3, "verl 0.6.1, not 0.9.9"),
)


def test_what_cannot_be_drafted(drafting, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("there.toml").write_text("keep = true\n")
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
    assert "\nvendored/workers " in run("graph", tmp_path / "toy").out
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


def test_the_draft_is_a_manifest(found: ManifestFit) -> None:
    made = draft(found, ("toy/x.py:3: imports y, which does not exist",))
    real = releases.load("0.6.1")
    whole = parse_manifest(combine(releases.merge_predecessors("0.5.0"), made.stated), "draft")
    assert whole.pin.wheel_sha256 == real.pin.wheel_sha256
    roles = [[(role.name, sorted(role.symbols)) for role in each.roles] for each in (whole, found.manifest)]
    assert roles[0] == roles[1]
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


# A checkout on its way to the next release, in which functions have moved and a dataclass has lost a field.
MOVED = ("compute_advantage", "apply_kl_penalty", "compute_response_mask")
FIELD = "use_no_sync_for_gradient_accumulation"


@pytest.fixture
def checkout(newest_verl: Source, tmp_path: Path) -> Path:
    """All moved, and their file is gone."""
    root = tmp_path / "checkout"
    for path, data in newest_verl.files.items():
        if path.startswith("verl/"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
    (root / "LICENSE").write_text("A licence.\n")
    (root / "verl/version/version").write_text("0.10.0.dev\n")
    engine = root / "verl/workers/config/engine.py"
    engine.write_text(engine.read_text().replace(f"    {FIELD}: bool = True\n", ""))
    trainer = root / "verl/trainer/ppo/ray_trainer.py"
    body = ast.parse(trainer.read_text()).body
    lines = trainer.read_text().splitlines(keepends=True)
    parts = {"imports": "", "moved": ""}
    for node in reversed(body):
        text = "".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            parts["imports"] = text + parts["imports"]
        elif isinstance(node, ast.FunctionDef) and node.name in MOVED:
            parts["moved"] = f"\n\n{text}{parts['moved']}"
    trainer.unlink()
    (trainer.parent / "advantage.py").write_text("".join(parts.values()))
    return root


@pytest.mark.thorough
def test_the_next_release_can_be_drafted_and_tried(run, drafting, checkout: Path, tmp_path: Path) -> None:
    drafted = drafting("0.10.0", "--from", checkout)
    assert drafted.code == 0, drafted.err
    assert "says that it is verl 0.10.0.dev" in drafted.err
    assert all(f'"verl.trainer.ppo.advantage:{name}"' in drafted.out for name in MOVED)
    assert '"trainer/ppo/advantage.py" = "vendored/algorithms/trainer_functions.py"' in drafted.out
    assert f"config/engine/fsdp.yaml sets actor_rollout_ref.actor.fsdp_config.{FIELD}" in drafted.err
    made = run("new", tmp_path / "toy", "--verl", "0.10.0", "--from", checkout, "--experimental")
    assert made.code == 0, made.err
    assert f"fsdp_config.{FIELD}, and upstream's FSDPEngineConfig has no such field any more: it was taken" in made.err
    assert FIELD not in (read_mapping((tmp_path / "toy/config/engine/fsdp.yaml").read_text()) or {})
    functions = (tmp_path / "toy/toy/vendored/algorithms/trainer_functions.py").read_text()
    assert all(name in functions for name in MOVED)
    run("status", tmp_path / "toy", "--check", code=0)
    refused = drafting("0.11.0", "--from", checkout)
    assert refused.code == 3
    assert "verl 0.10.0.dev, not 0.11.0" in refused.err
