"""Every key of a run or an export, as Hydra composes it with the release's own config tree, is kept or told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import exported, under_hydra
from benchmarks.against_hydra import EQUAL, judged
from extractor.importers.config.project import map_overrides
from extractor.importers.config.release import CONFIG, ReleaseConfig
from extractor.importers.runs.run_request import RunRequest
from extractor.pipeline.plan import plan_new
from extractor.usecases import new
from extractor.values.configtree import BadOverride, parse_override, write_override
from extractor.values.options import Options
from tests.benchmarks.test_judges import _namespaces
from tests.importers.conftest import vextract
from tests.releases import NEWEST, source_of

OPTIONS = Options("proj", NEWEST[-1], "vllm", "grpo", (), "toy")
BASE = "data.train_files=/d/t.parquet data.val_files=[/d/v.parquet] actor_rollout_ref.model.path=/m data.shuffle=False"
SETTINGS = {
    "grpo": (
        "algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=5 actor_rollout_ref.actor.fsdp_config.fsdp_size=8",
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean trainer.logger=console",
    ),
    "ppo": (
        "algorithm.adv_estimator=gae critic.model.path=/c critic.optim.lr=1e-5 trainer.critic_warmup=3",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 critic.ppo_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 algorithm.use_kl_in_reward=True",
    ),
}


def config_tree(folder: Path) -> Any:
    files = ReleaseConfig.of(source_of(NEWEST[-1])).files
    return under_hydra.configs_of({f"{CONFIG}{path}": text for path, text in files.items()}, folder)


@pytest.mark.slow  # makes projects
@pytest.mark.parametrize("kind", SETTINGS)
def test_no_key_of_a_run_differs_in_silence(kind: str, tmp_path: Path) -> None:
    arguments = [*BASE.split(), "actor_rollout_ref.rollout.name=vllm", *" ".join(SETTINGS[kind]).split()]
    script = tmp_path / "run.sh"
    script.write_text(f"python3 -m verl.trainer.main_ppo {' '.join(arguments)}\n")
    theirs = under_hydra.composed(config_tree(tmp_path / "tree"), None, arguments, {}, tmp_path)
    assert (theirs.refused, theirs.forced) == ("", ())
    made = new.make_in_memory(new.NewRequest(OPTIONS, run=RunRequest(script, run_verl=NEWEST[-1])), lambda text: None)
    counts, silent = judged(theirs, made, {item.partition("=")[0] for item in arguments}, tmp_path)
    assert silent == []
    assert counts[EQUAL] > 100


@pytest.mark.skipif(not _namespaces(), reason="needs Linux namespaces (unshare)")
def test_an_export_is_accepted_and_says_what_it_changes(tmp_path: Path) -> None:
    project = tmp_path / "proj"
    made = new.make_in_memory(new.NewRequest(OPTIONS), lambda text: None)
    new.write(project, plan_new(made.tree), made.generated)
    counts, silent, refused = exported.judged(project, config_tree(tmp_path / "tree"), tmp_path / "out")
    assert (silent, refused) == ([], "")
    assert counts[EQUAL] > 100
    assert counts[exported.IN_THE_TABLE] > 10


def test_what_makes_it_another_experiment_is_said(projects: dict[str, Path], tmp_path: Path) -> None:
    for setting, lost in (
        ("local.rollout.ahead=1", ["local.rollout (ahead=1)"]),
        ("actor_rollout_ref.actor.optim.optimizer=Adam", []),
    ):
        out = tmp_path / setting.partition("=")[0]
        result = vextract("export", projects["toy"], "-o", out, "--json", "--set", setting)
        told = [text.partition(": ")[0] for text in result.json["remarks"] if "another experiment" in text]
        assert told == lost
        assert all(f"warning: {text}" in result.err for text in told)


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
    flat = map_overrides({"section": {"inner": drawn}})
    try:
        made = _nested(flat)
    except BadOverride:
        return
    assert made == {"section": {"inner": drawn}}
