"""Composition without Hydra: what Hydra itself makes of verl's and a project's config trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.usecases.export.target import Target
from extractor.values.configtree import BadOverride, compose, flatten, parse_override, resolve, write_override
from tests.releases import every_release, source_of

OVERRIDES = ["data.train_batch_size=17", "+data.env.x=[1,a,'b c',{k: 1e-6}]", "actor_rollout_ref.actor.optim.lr=1e-6"]


@pytest.mark.parametrize("release", every_release())
@pytest.mark.usefixtures("verl")
def test_composes_as_hydra_does(release: str, tmp_path: Path) -> None:
    hydra = pytest.importorskip("hydra")
    omegaconf = pytest.importorskip("omegaconf")
    target = Target.of(source_of(release))
    for path, text in target.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    composed = compose(target.files, "ppo_trainer.yaml", [parse_override(item) for item in OVERRIDES])
    assert composed.problems == ()
    with hydra.initialize_config_dir(str(tmp_path), version_base=None):
        theirs = hydra.compose("ppo_trainer", overrides=OVERRIDES)
    expected = flatten(omegaconf.OmegaConf.to_container(theirs, resolve=True))
    ours = {key: None if value == "???" else value for key, value in flatten(resolve(composed.config)).items()}
    assert ours == {key: None if value == "???" else value for key, value in expected.items()}


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -1, 1e-6, 0.5, "a", "a b", "it's", 'say "x"', "a,b", "[x]", "1", "true", "null", "", "a=b", "$x",
     "C:\\a\\", "\\'", [1, "a b", [None]], {"a": 1, "b": {"c": "d e"}}, [], {}, "/a/b-c_d.parquet", "x:y", "ä"],
)  # fmt: skip
def test_written_values_are_read_back(value: object) -> None:
    text = write_override("a.b", value)
    assert parse_override(text).value == value
    parser = pytest.importorskip("hydra.core.override_parser.overrides_parser").OverridesParser.create()
    assert parser.parse_override(text).value() == value


@pytest.mark.parametrize("text", ["a", "=1", "a=[1", "a={b:1", "a='x", "a=[1]2", "--flag"])
def test_what_is_no_override(text: str) -> None:
    with pytest.raises(BadOverride):
        parse_override(text)


FILES = {"main.yaml": "a:\n  b: 1\n  c: null\n  open: {}\nd: ${a.b}\n"}


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("a.b=2", None),
        ("a.x=2", "there is no key a.x"),
        ("+a.x=2", None),
        ("+a.b=2", "a.b is there already: leave the + out"),
        ("++a.b=2", None),
        ("~a.b", None),
        ("~a.x", "there is no key a.x"),
        ("+a.open.new=1", None),
        ("a.open.new=1", "there is no key a.open.new"),
        ("+n.e.w=1", None),
        ("a={b: 3}", None),
        ("a={z: 3}", "a has no key 'z': add it with a +"),
    ],
)
def test_overrides_are_refused_as_hydra_refuses_them(override: str, problem: str | None) -> None:
    composed = compose(FILES, "main.yaml", [parse_override(override)])
    assert [item.message for item in composed.problems] == ([] if problem is None else [problem])
