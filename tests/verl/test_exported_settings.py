"""What an export makes of settings, as Hydra composes it with the release's own config tree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import under_hydra
from extractor.usecases.export.project import by_override
from extractor.usecases.export.target import CONFIG, Target
from extractor.values.configtree import BadOverride, parse_override, write_override
from tests.releases import ALL, NEWEST, source_of
from tests.verl.conftest import Result, vextract

JUDGE = ("reward.reward_model.enable=true", "reward.reward_model.model_path=/judge")
CLASSIFIERS = ALL[: ALL.index("0.7.1")]
TOKENIZER, SIZE = "reward_model.model.input_tokenizer", "reward_model.micro_batch_size_per_gpu"


def exported(project: Path, release: str, out: Path, *settings: str) -> Result:
    items = [item for setting in settings for item in ("--set", setting)]
    return vextract("export", project, "--verl", release, "-o", out, "--json", *items)


def composed(result: Result, release: str, out: Path) -> Mapping[str, Any]:
    """The release's config as Hydra composes it of what an export passes."""
    assert result.code == 0, result.err
    files = {f"{CONFIG}{path}": text for path, text in Target.of(source_of(release)).files.items()}
    tree = under_hydra.configs_of(files, out.with_name(f"{out.name}-tree"))
    found = under_hydra.composed(tree, None, result.json["overrides"], {}, out)
    assert (found.refused, found.forced) == ("", ())
    return found.config


@pytest.mark.slow
@pytest.mark.parametrize("release", CLASSIFIERS)
def test_a_reward_model_keeps_its_settings(projects: dict[str, Path], release: str, tmp_path: Path) -> None:
    of_project = "local.reward_model"
    given = ("input_tokenizer=/other", "max_length=77", "micro_batch_size_per_gpu=3", "param_offload=true")
    settings = [*JUDGE, "data.return_raw_chat=true", *(f"{of_project}.{item}" for item in given)]
    result = exported(projects["toy"], release, tmp_path / "out", *settings)
    made = composed(result, release, tmp_path / "out")
    assert made[TOKENIZER] == "/other"
    assert (made["reward_model.max_length"], made[SIZE], made["reward_model.micro_batch_size"]) == (77, 3, None)
    assert made["reward_model.model.fsdp_config.param_offload"] is True
    assert made["reward_model.model.path"] == "/judge"
    assert not made.get("reward_model.use_reward_loop")  # 0.7.0 would serve it, in its own template


@pytest.mark.slow
@pytest.mark.parametrize("release", CLASSIFIERS)
def test_a_reward_model_that_reads_the_policys_tokens_goes_on_doing_so(
    projects: dict[str, Path], release: str, tmp_path: Path
) -> None:
    """By default those releases put conversations into its template, and ask for the size of a pass."""
    settings = (*JUDGE, "local.reward_model.micro_batch_size_per_gpu=null", "data.train_batch_size=32")
    result = exported(projects["toy"], release, tmp_path / "out", *settings, "actor_rollout_ref.rollout.n=4")
    made = composed(result, release, tmp_path / "out")
    assert made[TOKENIZER] is None
    assert (made[SIZE], made["reward_model.micro_batch_size"]) == (128, None)


@pytest.mark.slow
def test_a_tokenizer_that_is_the_policys_follows_it(projects: dict[str, Path], tmp_path: Path) -> None:
    settings = (*JUDGE, "actor_rollout_ref.model.path=/policy", "local.reward_model.input_tokenizer=/policy")
    made = composed(exported(projects["toy"], "0.6.1", tmp_path / "out", *settings), "0.6.1", tmp_path / "out")
    assert made[TOKENIZER] == "/policy"


@pytest.mark.slow
def test_a_reward_model_that_is_served_has_an_engine(projects: dict[str, Path], tmp_path: Path) -> None:
    settings = (*JUDGE, "local.reward_model.max_length=9")
    result = exported(projects["toy"], NEWEST[-1], tmp_path / "out", *settings)
    made = composed(result, NEWEST[-1], tmp_path / "out")
    assert made["reward.reward_model.rollout.name"] == "vllm"
    assert made["reward.reward_model.rollout.tensor_model_parallel_size"] == 1
    assert any("chat template" in text for text in result.json["remarks"])
    assert any("max_length" in text for text in result.json["remarks"])


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.5.0", NEWEST[-1]])
def test_keys_that_are_no_words_are_in_a_mapping(projects: dict[str, Path], release: str, tmp_path: Path) -> None:
    mixed = r"{openai/gsm8k:0.5,my\ set:0.25,a.b:{c\:d:1},plain:2}"
    result = exported(projects["toy"], release, tmp_path / "out", f"+data.env.mix={mixed}")
    made = composed(result, release, tmp_path / "out")
    assert made["data.env.mix.openai/gsm8k"] == 0.5
    assert made["data.env.mix.my set"] == 0.25
    assert made["data.env.mix.plain"] == 2
    text = (tmp_path / "out/run.sh").read_text()
    assert "a.b:{c\\:d:1}" in text  # one level, and not two
    back = tmp_path / "back"
    assert vextract("new", back, "--verl", NEWEST[-1], "--from-verl-run", tmp_path / "out/run.sh").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("key", ['"schön"', '""', "7"])
def test_keys_that_hydra_has_no_words_for_are_refused(projects: dict[str, Path], key: str, tmp_path: Path) -> None:
    project = tmp_path / "p"
    assert vextract("new", project, "--verl", NEWEST[-1]).code == 0
    config = project / "config/ppo_trainer.yaml"
    text = config.read_text()
    assert "  env:\n" in text
    config.write_text(text.replace("  env:\n", f"  env:\n    mix: {{{key}: 0.5}}\n", 1))
    result = exported(project, NEWEST[-1], tmp_path / "out")
    assert result.code == 2
    assert key.strip('"') in result.err
    assert "hint: " in result.err
    assert not (tmp_path / "out").exists()


def _nested(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config that overrides make, in order, as Hydra merges them."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        override = parse_override(write_override(name, value, "+"))
        assert override.key == name
        node = found
        *sections, last = override.key.split(".")
        for part in sections:
            node = node.setdefault(part, {})
        if isinstance(override.value, dict) and isinstance(node.get(last), dict):
            node[last].update(override.value)
        else:
            node[last] = override.value
    return found


_KEYS = st.text(alphabet="ab7 ./:-_=,{}[]()'\"\\$@~é", max_size=6) | st.sampled_from(["true", "null", "0", "07", "1.5"])
_MAPPINGS = st.recursive(
    st.integers(0, 9), lambda inner: st.dictionaries(_KEYS, inner, min_size=1, max_size=3), max_leaves=6
)


@given(st.dictionaries(_KEYS | st.integers(0, 12), _MAPPINGS, min_size=1, max_size=3))
@example({"openai/gsm8k": 1, "my set": 2})
@example({"a.b": {"c": 1}, "a": {"b": 2}})
@example({"a:b": 1, "a\\": 2})
def test_hydra_reads_every_key_as_it_is_or_it_is_refused(drawn: dict[str, Any]) -> None:
    flat = by_override({"section": {"inner": drawn}})
    try:
        made = _nested(flat)
    except BadOverride:
        return
    assert made == {"section": {"inner": drawn}}
