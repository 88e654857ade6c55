"""Runs of upstream's recipe for PRIME become projects with process rewards; names of forks are refused."""

from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs import settings
from extractor.importers.runs.run import Run
from tests.importers.conftest import vextract

POLICY, REFERENCE = "actor_rollout_ref.model.path", "reward_model.model.ref_path"
PROJECT: dict[str, Any] = {
    "local.prime.enable": False,
    "local.prime.optim.lr": 1e-6,
    "local.prime.oversample_factor": 4.0,
    "local.prime.path": "policy",
    "reward.reward_model.enable": False,
}
RUN: dict[str, Any] = {
    POLICY: "policy",
    "data.oversample_factor": 2,
    "reward_model.enable": True,
    "reward_model.model.optim.lr": 5e-7,
    "reward_model.model.path": "policy",
}


@pytest.mark.parametrize(
    ("program", "is_its"),
    [("recipe.prime.main_prime", True), ("recipe/prime/main_prime.py", True), ("verl.trainer.main_ppo", False)],
)
def test_the_recipe_is_known_by_its_program(program: str, is_its: bool) -> None:
    assert Run("run.sh", program=program).is_prime is is_its


def test_settings_have_the_projects_names_and_no_model_judges() -> None:
    found, used, remarks = settings.convert_prime(RUN, RUN, PROJECT)
    assert found == {
        "local.prime.enable": True,
        "local.prime.optim.lr": 5e-7,
        "local.prime.oversample_factor": 2,
        "reward.reward_model.enable": False,
    }
    assert RUN.keys() - {POLICY} <= used
    assert [(item.key, item.what) for item in remarks] == [
        ("data.oversample_factor", "renamed"),
        ("reward_model.model.optim.lr", "renamed"),
    ]


@pytest.mark.parametrize(("path", "said"), [("policy", ["renamed"]), ("other", ["changed"]), (None, [])])
def test_a_model_of_its_own_is_named_and_a_reference_of_its_own_is_not_taken(path: str | None, said: list[str]) -> None:
    run = {**RUN, "reward_model.model.path": path, REFERENCE: path}
    found, _, remarks = settings.convert_prime(run, run, PROJECT)
    assert found.get("local.prime.path", "policy") == (path or "policy")
    assert [item.what for item in remarks if item.key == REFERENCE] == said


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
    assert "say in its place" in made.err
