"""Composition without Hydra: what Hydra itself makes of verl's and a project's config trees."""

from pathlib import Path

import hydra
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from extractor.importers.config.release import ReleaseConfig
from extractor.values.configtree import BadOverride, compose, flatten, parse_override, resolve, write_override
from tests.importers.conftest import put
from tests.releases import NEWEST, source_of

RESERVED = ("null", "true", "false", "inf", "nan")
OVERRIDES = ["data.train_batch_size=17", "+data.env.x=[1,a,'b c',{k: 1e-6}]", "actor_rollout_ref.actor.optim.lr=1e-6"]


def test_composes_as_hydra_does(tmp_path: Path) -> None:
    target = ReleaseConfig.of(source_of(NEWEST[-1]))
    put(tmp_path, target.files)
    composed = compose(target.files, "ppo_trainer.yaml", [parse_override(item) for item in OVERRIDES])
    assert composed.problems == ()
    with hydra.initialize_config_dir(str(tmp_path), version_base=None):
        theirs = hydra.compose("ppo_trainer", overrides=OVERRIDES)
    expected = flatten(OmegaConf.to_container(theirs, resolve=True))
    ours = {key: None if value == "???" else value for key, value in flatten(resolve(composed.config)).items()}
    assert ours == {key: None if value == "???" else value for key, value in expected.items()}


# Entries of defaults lists, as people write them beside verl's own.
ENTRIES = [
    "db/mysql",
    "db/mysql@foo",
    "db/mysql@_here_",
    "./db/mysql@",
    "/db/mysql",
    "{db@w: mysql}",
    "{db: [mysql, nested]}",
    "db/nested",
    "db/by_header",
    "{db@mine: by_header}",
    "rows/two@data.rows",
    "{nested/deeper: leaf}",
]
ENTERED = {
    "db/mysql.yaml": "x: 1\n",
    "db/nested.yaml": "defaults: [mysql, mysql@sub, /nested/deeper: leaf, _self_]\nx: 2\n",
    "db/by_header.yaml": "# @package other.place\nx: 3\n",
    "rows/two.yaml": "- {name: a, x: 1}\n- {name: b}\n",
    "nested/deeper/leaf.yaml": "leaf: true\n",
}


def test_entries_of_defaults_lists_mean_what_hydra_says(tmp_path: Path) -> None:
    put(tmp_path, ENTERED)
    for number, entry in enumerate(ENTRIES):
        text = f"defaults: [{entry}, _self_]\nz: 1\n"
        put(tmp_path, {f"main{number}.yaml": text})
        with hydra.initialize_config_dir(str(tmp_path), version_base=None):
            theirs = OmegaConf.to_container(hydra.compose(f"main{number}"))
        assert compose({"main.yaml": text, **ENTERED}, "main.yaml").config == theirs, entry


# What a config may hold; a mapping's keys are names, for which alone Hydra's grammar has words.
NAMES = st.from_regex(r"[A-Za-z_/][A-Za-z0-9_./-]*", fullmatch=True).filter(lambda name: name.lower() not in RESERVED)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(VALUES)
@example("'a\\'")
@example("${x}{y}")
def test_hydra_reads_what_is_written(value: object) -> None:
    text = write_override("a.b", value)
    assert OverridesParser.create().parse_override(text).value() == value
    assert parse_override(text).value == value


def test_what_would_take_hydra_long_is_refused() -> None:
    for text in (f"a={'[' * 100}", "a=[" + "a," * 20_000 + "]", f"{'a.' * 100}b=1", f"a={'1' * 9999}"):
        with pytest.raises(BadOverride):
            parse_override(text)


PROBES = [
    f"a={value}"
    for value in ["int(3)", "007", "1_000", "a\\b", "{1: 2}", "'x", '"x\\""', "'\\\\'", "~", "~/x", "${b}", "$b", "a:b",
                  "é", "a b ", " a", "a\tb", "[1,]", "[a, 'b,c']", "{a: {b: [1]}}", "str(1)", "sort([2,1])", "f(1)",
                  "1,2", "choice(a,b)", "range(3)", "glob(*)", ".5", "1.", "1e3", "+1", "-0", "NULL", "True", "nan",
                  "\\,", "a#b", "!x", "<a>", "a;b", "x=y", "", "'a'b", "[a]b", "{a}", "0x10", "1:2:3"]
] + ["~a", "~a=1", "+a=1", "++a=1", "+++a=1", "a", "=1", "--a=1", "a.0=1", "a b=1", " a=1", "$a=1", "a/b=c", "a@b=c",
     "a/b@c.d=e", "a.b@c=1", "-a=1", "a-b=1", "1a=1", "a..b=1", "é=1", "a[0]=1"]  # fmt: skip


def test_overrides_mean_what_hydra_says() -> None:
    for text in PROBES:
        try:
            theirs = OverridesParser.create().parse_override(text)
            refused = theirs.is_sweep_override() or not theirs.key_or_group
        except HydraException:
            refused = True
        if refused:
            with pytest.raises(BadOverride):
                parse_override(text)
            continue
        ours = parse_override(text)
        assert f"{ours.mark}{ours.key}" == theirs.get_key_element(), text
        assert repr(ours.value) == repr(theirs.value())


FILES = {"main.yaml": "a:\n  b: 1\n  c: null\n  open: {}\nd: ${a.b}\n"}


PROBLEMS = {
    "a.x=2": "there is no key a.x",
    "+a.x=2": None,
    "+a.b=2": "a.b is there already: leave the + out",
    "++a.b=2": None,
    "~a.b=1": None,
    "~a.b=2": "a.b is 1, and only that value could be deleted by name",
    "~a.x": "there is no key a.x",
    "+a.open.new=1": None,
    "a.open.new=1": "there is no key a.open.new",
    "a={b: 3}": None,
    "a={z: 3}": "a has no key 'z': add it with a +",
}


def test_overrides_are_refused_as_hydra_refuses_them() -> None:
    for override, problem in PROBLEMS.items():
        found = [item.message for item in compose(FILES, "main.yaml", [parse_override(override)]).problems]
        assert found == ([] if problem is None else [problem])
