"""Names of forks, and upstream's recipe for PRIME, are refused with what to say in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importers.conftest import vextract


def test_the_recipe_for_prime_is_refused_with_the_algorithm(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("python -m recipe.prime.main_prime algorithm.adv_estimator=rloo\n")
    made = vextract("new", tmp_path / "own", "--from-verl-run", tmp_path / "run.sh")
    assert made.code == 2
    assert "run.sh:1: upstream's recipe for PRIME is not read" in made.err
    assert "--algorithm prime" in made.err


@pytest.mark.parametrize(
    ("words", "said", "instead"),
    [
        ("reward_model.rm_type=prime reward_model.rm_coef=7", "rm_type=prime", "--algorithm prime"),
        ("actor_rollout_ref.actor.tis_imp_ratio_cap=2", "tis_imp_ratio_cap=2", "say in its place"),
        (
            "algorithm.rollout_is=true algorithm.rollout_is_threshold=2.0",
            "rollout_is_threshold=2.0",
            "rollout_is=token",
        ),
    ],
)
def test_names_of_forks_that_change_what_is_learned_are_refused(
    tmp_path: Path, words: str, said: str, instead: str
) -> None:
    (tmp_path / "run.sh").write_text(f"python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo {words}\n")
    made = vextract("new", tmp_path / "own", "--from-verl-run", tmp_path / "run.sh", "--keep-unknown")
    assert made.code == 2
    assert f"{said}: a name that no supported release of verl has is not read" in made.err
    assert instead in made.err
