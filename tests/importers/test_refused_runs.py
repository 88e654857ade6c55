"""Runs that no project does are refused, with what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importers.conftest import vextract

MAIN = "verl.trainer.main_ppo"


@pytest.mark.parametrize(
    ("program", "words", "said", "hint"),
    [
        (MAIN, "actor_rollout_ref.actor.tis_imp_ratio_cap=2", "tis_imp_ratio_cap=2", "say in its place"),
        (MAIN, "algorithm.rollout_is=true algorithm.rollout_is_threshold=2.0", "threshold=2.0", "say in its place"),
        (MAIN, "reward_model.rm_type=prime reward_model.rm_coef=7", "rm_type=prime", "--algorithm prime"),
        ("recipe.prime.main_prime", "reward_model.model.update=before", "run.sh:1: recipe.prime", "--algorithm prime"),
    ],
)
def test_they_are_refused(tmp_path: Path, program: str, words: str, said: str, hint: str) -> None:
    (tmp_path / "run.sh").write_text(f"python -m {program} algorithm.adv_estimator=grpo {words}\n")
    made = vextract("new", tmp_path / "own", "--from-verl-run", tmp_path / "run.sh", "--keep-unknown")
    assert made.code == 2
    assert said in made.err
    assert "is not read" in made.err
    assert hint in made.err
