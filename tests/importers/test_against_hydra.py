"""Every key of a run, as Hydra composes it with its release's config tree, is its project's, or the report says so."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import against_hydra, under_hydra
from benchmarks.against_hydra import EQUAL, compared, judged
from extractor.importers.config.release import CONFIG, ReleaseConfig
from extractor.importers.runs.run_request import RunRequest
from extractor.usecases import new
from extractor.values import releases
from extractor.values.options import Options
from tests.benchmarks.test_judges import _namespaces
from tests.importers.conftest import put
from tests.releases import newest_release, source_of

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
BASE = "data.train_files=/d/t.parquet data.val_files=[/d/v.parquet] actor_rollout_ref.model.path=/m data.shuffle=False"


@pytest.mark.slow  # makes projects
@pytest.mark.parametrize("release", newest_release())
@pytest.mark.parametrize("kind", SETTINGS)
def test_no_key_differs_in_silence(kind: str, release: str, tmp_path: Path) -> None:
    arguments = [*BASE.split(), "actor_rollout_ref.rollout.name=vllm", *" ".join(SETTINGS[kind]).split()]
    script = tmp_path / "run.sh"
    script.write_text(f"python3 -m verl.trainer.main_ppo {' '.join(arguments)}\n")
    files = ReleaseConfig.of(source_of(release)).files
    tree = under_hydra.configs_of({f"{CONFIG}{path}": text for path, text in files.items()}, tmp_path / "tree")
    theirs = under_hydra.composed(tree, None, arguments, {}, tmp_path)
    assert (theirs.refused, theirs.forced) == ("", ())
    options = Options("proj", releases.find_default(), "vllm", "grpo", (), "toy")
    wanted = new.NewRequest(options, run=RunRequest(script, run_verl=release))
    made = new.make_in_memory(wanted, lambda text: None)
    counts, silent = judged(theirs, made, {item.partition("=")[0] for item in arguments}, tmp_path)
    assert silent == []
    assert counts[EQUAL] > 100


MINE = "@hydra.main(config_path='config', config_name='mine_trainer', version_base=None)\ndef main(config): ...\n"
GRPO = "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=$M"
MODEL = "M=/data/m\nif [ ! -d $M ]; then M=of/the-hub; fi\n"
OWN = """
hydra: {searchpath: ["pkg://verl.trainer.config"]}
defaults: [ppo_trainer, _self_]
mine: {alpha: 3}
algorithm: {gamma: 0.9}
"""


@pytest.mark.slow  # makes a project
@pytest.mark.skipif(not _namespaces(), reason="needs Linux namespaces (unshare)")
@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.thorough
def test_what_a_recipe_s_own_config_says_is_judged_too(
    is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a repository of its own in a checkout of verl, and is started from its own folder."""
    release = releases.find_default()
    files = {f"{CONFIG}{path}": text for path, text in ReleaseConfig.of(source_of(release)).files.items()}
    script = "recipe/mine/run.sh"
    own = {
        "verl/__init__.py": "",
        "verl/version/version": release,
        "recipe/.git": "gitdir: ../.git/modules/recipe",
        "recipe/mine/main_mine.py": MINE,
        "recipe/mine/config/mine_trainer.yaml": OWN,
        script: f"{MODEL}python3 -m mine.main_mine {BASE} {GRPO}\n",
    }
    put(tmp_path, {**files, **own})
    tree = under_hydra.configs_of({**files, **own}, tmp_path / "tree")
    real = against_hydra.project_of

    def project_of(*arguments: Any) -> tuple[new.NewProject, tuple[str, ...]]:
        made, given = real(*arguments)
        assert made.run is not None
        kept = tuple(item for item in made.run.remarks if is_told or item.key != "mine.alpha")
        return replace(made, run=replace(made.run, remarks=kept)), given

    monkeypatch.setattr(against_hydra, "project_of", project_of)
    verls = under_hydra.composed(tree, None, (), {}, tmp_path).written
    found = compared(tmp_path / script, tmp_path, tree, verls, release, keep_unknown=False)
    assert (found.why, found.forced) == ("", ())
    assert [(item.key, item.value) for item in found.silent] == ([] if is_told else [("mine.alpha", 3)])
