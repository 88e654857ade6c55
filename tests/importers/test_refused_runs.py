"""Runs of verl's recipe for PRIME are refused, as are names of forks that change what is learned."""

from pathlib import Path

import pytest

from tests.importers.conftest import vextract


@pytest.mark.parametrize("program", ["-m recipe.prime.main_prime", "recipe/prime/main_prime.py"])
def test_the_recipe_for_prime_is_refused_with_the_way_round(tmp_path: Path, program: str) -> None:
    (tmp_path / "run.sh").write_text(f"python3 {program} algorithm.adv_estimator=rloo\n")
    refused = vextract("new", tmp_path / "own", "--from-verl-run", tmp_path / "run.sh")
    assert refused.code == 2
    assert "run.sh:1: verl's recipe for PRIME is not read" in refused.err
    assert "`vextract new myproj --algorithm prime` makes a project for it" in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("reward_model.rm_type=prime reward_model.rm_coef=7", "rm_type=prime"),
        ("actor_rollout_ref.actor.tis_imp_ratio_cap=2", "tis_imp_ratio_cap=2"),
        ("algorithm.rollout_is=true algorithm.rollout_is_threshold=2.0", "rollout_is_threshold=2.0"),
    ],
)
def test_names_of_forks_that_change_what_is_learned_are_refused(tmp_path: Path, words: str, said: str) -> None:
    (tmp_path / "run.sh").write_text(f"python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo {words}\n")
    made = vextract("new", tmp_path / "own", "--from-verl-run", tmp_path / "run.sh", "--keep-unknown")
    assert made.code == 2
    assert f"{said}: a name that no supported release of verl has is not read" in made.err
    assert ("say in its place" in made.err) is ("prime" not in said)
