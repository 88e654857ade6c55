"""Reading manifests, and what a malformed one says."""

from collections.abc import Iterator

import pytest

from extractor.pipeline.index import Index
from extractor.pipeline.slicer.definitions import Definitions
from extractor.pipeline.source import Source
from extractor.usecases.draft.check import has_binding, holds, matches
from extractor.values import releases
from extractor.values.errors import UsageError
from extractor.values.manifest import ChainError, Manifest, combine, parse_manifest, read_toml
from extractor.values.options import Options
from tests.releases import source_of

GOOD = """
schema = 1
release = "1.2.3"
engines = ["hf"]
algorithms = ["grpo"]
[source]
wheel = "verl-1.2.3-py3-none-any.whl"
wheel_sha256 = "{digest}"
[layout]
[roles.algorithms]
symbols = ["verl.algo:*"]
[features.critic]
summary = "values"
[[fixes]]
id = "one"
why = "it is wrong"
module = "verl.algo"
test = "tests/x.py::y"
[[fixes.edits]]
op = "replace"
match = "a"
with = "b"
[requirements]
base = ["torch>=2.7"]
dev = ["pytest>=8"]
[requirements.recipes]
gsm8k = ["math-verify>=0.8"]
[renamed_keys]
"a.old" = "a.new"
""".replace("{digest}", "a" * 64)


def test_a_good_manifest_is_read() -> None:
    found = parse_manifest(read_toml(GOOD, "good.toml"), "good.toml")
    assert (found.release, found.roles[0].symbols) == ("1.2.3", ("verl.algo:*",))
    assert (found.fixes[0].edits[0].replacement, found.renamed_keys) == ("b", {"a.old": "a.new"})
    # A recipe adds to what a project needs.
    assert found.list_requirements(Options("p", "1.2.3")) == ("torch>=2.7",)
    assert found.list_requirements(Options("p", "1.2.3", recipe="gsm8k")) == ("math-verify>=0.8", "torch>=2.7")


MALFORMED = (
    ("schema = 1", "schema = 2", "schema", "upgrade vextract"),
    ('engines = ["hf"]', 'engines = "hf"', "engines", "array of strings"),
    ('engines = ["hf"]', 'engine = ["hf"]', "engine", "did you mean `engines`"),
    ("a" * 64, "abc", "source.wheel_sha256", "64 lower-case hex digits"),
    ('"verl.algo:*"', '"verl.algo"', "roles.algorithms.symbols", "module:name"),
    ('summary = "values"', "", "features.critic.summary", "add it"),
    ('summary = "values"', 'summary = "values"\nneeds = ["zoo"]', "features.critic.needs", "features: critic"),
    ('op = "replace"', 'op = "rewrite"', "fixes[0].edits[0].op", "one of replace"),
    ('"torch>=2.7"', '"torch>>2"', "requirements.base", "torch>=2.6,<3"),
    ('"a.new"', '"a new"', "renamed_keys.a.old", "a.b"),
    ('"a.new"', '"a.other"\n"a.other" = "a.new"', "renamed_keys.a.old", "final key"),
    ("[roles.algorithms]", '[roles.algorithms]\nengine = "vllm"', "roles.algorithms.engine", "engines: hf"),
)


def test_a_malformed_manifest_names_file_key_and_hint() -> None:
    for old, new, key, hint in MALFORMED:
        assert old in GOOD
        with pytest.raises(UsageError) as caught:
            parse_manifest(read_toml(GOOD.replace(old, new, 1), "bad.toml"), "bad.toml")
        assert "bad.toml" in str(caught.value)
        assert f"`{key}`" in str(caught.value)
        assert hint in caught.value.hint


LATER = """
release = "1.3.0"
follows = "1.2.3"
algorithms = { add = ["ppo"] }
[source]
wheel = "verl-1.3.0-py3-none-any.whl"
[roles.algorithms]
symbols = { add = ["verl.other:f"], drop = ["verl.algo:*"] }
[roles.critic]
symbols = ["verl.critic:*"]
feature = "critic"
[[fixes]]
id = "two"
why = "it does not run"
module = "verl.other"
test = "tests/x.py::z"
[drop]
fixes = ["one"]
"requirements" = ["dev"]
"""


def test_a_manifest_states_what_differs_from_the_release_before() -> None:
    before, stated = read_toml(GOOD, "good.toml"), read_toml(LATER, "later.toml")
    whole = combine(before, stated)
    assert whole["algorithms"] == ["grpo", "ppo"]
    assert whole["schema"] == 1
    assert whole["roles"] == {
        "algorithms": {"symbols": ["verl.other:f"]},
        "critic": {"symbols": ["verl.critic:*"], "feature": "critic"},
    }
    assert [fix["id"] for fix in whole["fixes"]] == ["two"]  # type: ignore[attr-defined]
    assert whole["requirements"] == {"base": ["torch>=2.7"], "recipes": {"gsm8k": ["math-verify>=0.8"]}}
    # What is about one release only is not handed on: digests, renamed keys.
    assert whole["source"] == {"wheel": "verl-1.3.0-py3-none-any.whl"}
    assert "renamed_keys" not in whole


def test_what_does_not_fit_the_release_before_is_named() -> None:
    with pytest.raises(UsageError, match=r"bad\.toml: not valid TOML"):
        read_toml("schema = [", "bad.toml")
    for stated, message in (
        ('[drop]\nfixes = ["two"]', "`drop.fixes`: drops 'two'"),
        ('[drop]\nzoo = ["two"]', "`drop.zoo`: the release before has no 'zoo'"),
        ('[drop]\nfixes = "one"', "`drop.fixes`: is 'one'"),
        ('algorithms = { add = ["grpo"] }', "`algorithms`: adds 'grpo'"),
        ('algorithms = { drop = ["ppo"] }', "`algorithms`: drops 'ppo'"),
    ):
        with pytest.raises(ChainError) as caught:
            combine(read_toml(GOOD, "good.toml"), read_toml(stated, "later.toml"))
        assert message in caught.value.message


def unmatched(manifest: Manifest, source: Source) -> Iterator[str]:
    """Yield the entries that match nothing in the source."""
    index = Index(source)
    names = Definitions(index, manifest, Options("p", manifest.release))
    yield from (path for path in manifest.layout if not holds(path, source.files))
    for role in manifest.roles:
        for symbol in role.symbols:
            module, _, name = symbol.partition(":")
            if module not in index or (name != "*" and names.define(module, name).kind == "missing"):
                yield symbol
        yield from (module for module in role.modules if module not in index)
    for feature in (*manifest.features, *manifest.withheld):
        yield from (pattern for pattern in (*feature.cut, *feature.replaced) if not matches(pattern, index))
    yield from (item.symbol for item in manifest.replacements if not has_binding(index, item.symbol))
    for fix in manifest.fixes:
        yield from (symbol for symbol in fix.replaced if not has_binding(index, symbol))
        yield from [] if fix.module in index else [fix.module]


@pytest.mark.network
@pytest.mark.parametrize("release", releases.list_supported())
def test_nothing_that_a_manifest_says_matches_nothing(release: str) -> None:
    """What a release inherits and has no longer is taken away in `[drop]`."""
    assert not list(unmatched(releases.load(release), source_of(release)))
