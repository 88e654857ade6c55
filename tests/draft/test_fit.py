"""0.6.1 held against the manifest of 0.5.0: what is known of these two must be found."""

from dataclasses import replace

import pytest

from benchmarks import drafts
from extractor.pipeline.generate import generate
from extractor.pipeline.source import Source
from extractor.usecases.draft import Kind, ManifestFit, fit
from extractor.values import releases
from extractor.values.errors import UsageError
from extractor.values.manifest import Role, combine, parse_manifest
from extractor.values.options import Options
from scripts.draft import Draft, draft, infer_renamed_keys


def subjects(found: ManifestFit, kind: Kind) -> list[str]:
    return [item.subject for item in found.findings if item.kind is kind]


def test_what_no_longer_holds_is_found(found: ManifestFit) -> None:
    assert subjects(found, Kind.ROOT) == ["verl.trainer.config:FSDPCriticConfig"]
    assert subjects(found, Kind.SIGNATURE) == ["verl.trainer.config.algorithm:AlgoConfig"]
    assert subjects(found, Kind.FIX_EDIT) == ["actor-autocast-dtype", "profiler-without-gpu"]
    assert len(subjects(found, Kind.CUT)) == len(subjects(found, Kind.FIX_SWAP)) == 8
    assert not found.left
    assert not found.holds


def test_a_root_that_moved_is_put_right(found: ManifestFit) -> None:
    item = next(item for item in found.findings if item.kind is Kind.ROOT)
    assert item.moved == "verl.workers.config:FSDPCriticConfig"
    role = next(role for role in found.manifest.roles if role.name == "critic")
    assert item.moved in role.symbols
    assert item.subject not in role.symbols


def test_fixes_follow_their_code_or_go(found: ManifestFit) -> None:
    fixes = {fix.id: fix for fix in found.manifest.fixes}
    assert "actor-autocast-dtype" not in fixes
    assert fixes["profiler-without-gpu"].edits[0].count == 4
    assert fixes["critic-autocast-dtype"] in releases.load("0.5.0").fixes


@pytest.mark.thorough
def test_a_release_holds_against_itself(verl_0_6_1: Source) -> None:
    found = fit("0.6.1", verl_0_6_1, verl_0_6_1, lambda step: None)
    assert found.holds
    made = draft(found)
    assert not made.todo
    assert set(made.stated) == {"schema", "release", "follows", "source"}
    assert "TODO" not in made.text


@pytest.mark.parametrize(
    ("place", "other"),
    [
        ("training/trainer.py", "a template of vextract's"),
        ("vendored/algorithms/core_algos.py", "verl/trainer/ppo/core_algos.py"),
    ],
)
def test_two_files_for_one_place_are_named_with_what_to_do(verl_0_6_1: Source, place: str, other: str) -> None:
    manifest = releases.load("0.6.1")
    manifest = replace(manifest, layout={**manifest.layout, "protocol.py": place})
    with pytest.raises(UsageError) as raised:
        generate(Options("toy", "0.6.1"), verl_0_6_1, manifest)
    assert raised.value.message.startswith(f"manifest of verl 0.6.1: toy/{place} would come from ")
    assert other in raised.value.message
    assert "verl/protocol.py" in raised.value.message
    assert "in [layout]" in raised.value.hint


def in_order(roles: tuple[Role, ...]) -> list[tuple[str, list[str]]]:
    return [(role.name, sorted(role.symbols)) for role in roles]


def drafted(found: ManifestFit) -> Draft:
    return draft(found, ("toy/x.py:3: imports y, which does not exist",))


def test_the_draft_is_a_manifest(found: ManifestFit) -> None:
    made = drafted(found)
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


def test_every_remark_stands_in_the_text_once(found: ManifestFit) -> None:
    made = drafted(found)
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
