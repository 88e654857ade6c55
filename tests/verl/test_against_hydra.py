"""Every key of a run, as Hydra composes it with its release's config tree, is its project's, or the report says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import under_hydra
from benchmarks.against_hydra import EQUAL, judged
from extractor.usecases import new
from extractor.usecases.export.target import CONFIG, Target
from extractor.usecases.fromrun.carry_over import Request
from extractor.values import releases
from extractor.values.options import Options
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
@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("release", newest_release())
@pytest.mark.parametrize("kind", SETTINGS)
def test_no_key_differs_in_silence(kind: str, release: str, tmp_path: Path) -> None:
    arguments = [*BASE.split(), "actor_rollout_ref.rollout.name=vllm", *" ".join(SETTINGS[kind]).split()]
    script = tmp_path / "run.sh"
    script.write_text(f"python3 -m verl.trainer.main_ppo {' '.join(arguments)}\n")
    files = Target.of(source_of(release)).files
    tree = under_hydra.configs_of({f"{CONFIG}{path}": text for path, text in files.items()}, tmp_path / "tree")
    theirs = under_hydra.composed(tree, None, arguments, {}, tmp_path)
    assert (theirs.refused, theirs.forced) == ("", ())
    options = Options("proj", releases.default(), "vllm", "grpo", (), "toy")
    wanted = new.Wanted(options, run=Request(script, run_verl=release))
    made = new.work_out(wanted, lambda text: None)
    counts, silent = judged(theirs, made, {item.partition("=")[0] for item in arguments}, tmp_path)
    assert silent == []
    assert counts[EQUAL] > 100
