"""Reading manifests, and what a malformed one says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extractor.errors import UsageError
from extractor.manifest import parse_manifest
from extractor.options import Options

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
[requirements.recipes]
gsm8k = ["math-verify>=0.8"]
[requirements.tested]
hf = ["torch==2.13.0"]
gsm8k = ["math-verify==0.9.0"]
[renamed_keys]
"a.old" = "a.new"
""".replace("{digest}", "a" * 64)


def test_a_good_manifest_is_read() -> None:
    found = parse_manifest(GOOD, "good.toml")
    assert found.release == "1.2.3"
    assert found.roles[0].symbols == ("verl.algo:*",)
    assert found.fixes[0].edits[0].replacement == "b"
    assert found.renamed_keys == {"a.old": "a.new"}


def test_a_recipe_adds_to_what_a_project_needs() -> None:
    found = parse_manifest(GOOD, "good.toml")
    toy, gsm8k = Options("p", "1.2.3"), Options("p", "1.2.3", recipe="gsm8k")
    assert found.requirements_for(toy) == ("torch>=2.7",)
    assert found.requirements_for(gsm8k) == ("math-verify>=0.8", "torch>=2.7")
    assert found.tested_for(toy) == ("torch==2.13.0",)
    assert found.tested_for(gsm8k) == ("math-verify==0.9.0", "torch==2.13.0")
    assert found.tested_for(replace(gsm8k, engine="vllm")) == ()


@pytest.mark.parametrize(
    ("old", "new", "key", "hint"),
    [
        ("schema = 1", "schema = 2", "schema", "upgrade vextract"),
        ('release = "1.2.3"', 'release = "one"', "release", "0.6.1"),
        ('engines = ["hf"]', 'engines = "hf"', "engines", "array of strings"),
        ('engines = ["hf"]', 'engine = ["hf"]', "engine", "did you mean `engines`"),
        ("a" * 64, "abc", "source.wheel_sha256", "64 lower-case hex digits"),
        ('"verl.algo:*"', '"verl.algo"', "roles.algorithms.symbols", "module:name"),
        ('summary = "values"', 'summary = ""', "features.critic.summary", "non-empty"),
        ('summary = "values"', "", "features.critic.summary", "add it"),
        ('op = "replace"', 'op = "rewrite"', "fixes[0].edits[0].op", "one of replace"),
        ('"torch>=2.7"', '"torch>>2"', "requirements.base", "torch>=2.6,<3"),
        ("gsm8k = [", "gsm9k = [", "requirements.recipes.gsm9k", "did you mean `gsm8k`"),
        ('"a.new"', '"a new"', "renamed_keys.a.old", "a.b"),
        ('"a.new"', "3", "renamed_keys.a.old", "a string"),
        ('"a.new"', '"a.new"\n"a.other" = "a.new"', "renamed_keys.a.other", "two keys"),
        ('"a.new"', '"a.other"\n"a.other" = "a.new"', "renamed_keys.a.old", "final key"),
        ("[requirements]", "[[requirements]]", "requirements", "a table"),
        ("[roles.algorithms]", '[roles.algorithms]\nengine = "vllm"', "roles.algorithms.engine", "engines: hf"),
        ("[roles.algorithms]", '[roles.algorithms]\nfeature = "zoo"', "roles.algorithms.feature", "features: critic"),
    ],
)
def test_a_malformed_manifest_names_file_key_and_hint(old: str, new: str, key: str, hint: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError) as caught:
        parse_manifest(GOOD.replace(old, new, 1), "bad.toml")
    assert "bad.toml" in str(caught.value)
    assert f"`{key}`" in str(caught.value)
    assert hint in caught.value.hint


def test_text_that_is_no_toml_names_the_file() -> None:
    with pytest.raises(UsageError, match=r"bad\.toml: not valid TOML"):
        parse_manifest("schema = [", "bad.toml")
