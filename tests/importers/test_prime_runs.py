"""Runs of upstream's recipe for PRIME become projects with process rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs import prime, primes_own
from extractor.importers.runs.reading import read_run
from extractor.values.configtree import flatten
from tests.importers.conftest import vextract
from tests.importers.test_copies import checkout

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
    assert prime.is_launch(program) is is_its


def test_settings_have_the_projects_names_and_no_model_judges() -> None:
    found, used, remarks = prime.settings(RUN, RUN, PROJECT)
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
    found, _, remarks = prime.settings(run, run, PROJECT)
    assert found.get("local.prime.path", "policy") == (path or "policy")
    assert [item.what for item in remarks if item.key == REFERENCE] == said


# As PRIME's own repository starts it, with what its config says besides.
OF_ITS_OWN = """python3 -m verl.trainer.main_ppo data.train_batch_size=8 data.n_samples=3 data.filter_accuracy=True \\
    data.accuracy_lower_bound=0.1 algorithm.adv_estimator=rloo algorithm.adv_params.verifier_gamma=1.0 \\
    actor_rollout_ref.model.path=m reward_model.rm_type=prime reward_model.rm_coef=7 reward_model.prime_lambda=0 \\
    reward_model.prime_model.path=m reward_model.prime_model.ref_path=m reward_model.prime_model.optim.lr=2e-6 \\
    reward_model.prime_granularity=token reward_model.mini_batch_size=4
"""
CONFIG = """
data: {train_batch_size: 1, n_samples: 1, oversample_factor: 2.5}
verifier: {reward_coef: 4}
reward_model: {rm_type: null, rm_coef: 0, prime_norm: none, prime_model: {update: after, optim: {lr: 1e-6}}}
"""
CHECKOUT = {
    "verl/trainer/main_ppo.py": "@hydra.main(config_path='config', config_name='ppo_trainer')\ndef main(c): ...\n",
    "verl/trainer/config/ppo_trainer.yaml": CONFIG,
    "run.sh": OF_ITS_OWN,
}


def test_a_run_of_its_own_repository_has_the_names_of_upstreams_recipe(tmp_path: Path) -> None:
    checkout(tmp_path, CHECKOUT)
    run = primes_own.with_recipes_names(read_run(tmp_path / "run.sh", {}, {}))
    assert run.has_process_rewards
    said = {item.key: item.value for item in run.overrides}
    assert {
        "actor_rollout_ref.rollout.n": 3,
        "algorithm.reward_dpo_coef": 7,
        "algorithm.reward_gt_coef": 4,
        "data.accuracy_lower_bound": 0.1,
        "data.oversample_factor": 2.5,
        "reward_model.mini_batch_size": 4,
        "reward_model.model.optim.lr": 2e-6,
        "reward_model.model.path": "m",
        "reward_model.model.update": "after",
        "reward_model.prime_norm": "none",
    }.items() <= said.items()
    left = {key for key, value in {**said, **flatten(run.defaults)}.items() if value != {}}
    assert run.defaults["reward_model"]["rm_coef"] == 7  # for its manager, which may be copied
    gone = ("prime_model", "adv_params", "rm_type")
    assert not [key for key in left if any(name in key for name in gone)]
    other = read_run(tmp_path / "run.sh", {}, {})
    (tmp_path / "run.sh").write_text(OF_ITS_OWN.replace("rm_type=prime", "rm_type=normal"))
    plain = read_run(tmp_path / "run.sh", {}, {})
    assert primes_own.with_recipes_names(plain) is plain
    assert not other.has_process_rewards


@pytest.mark.usefixtures("verl")
def test_a_run_of_its_own_repository_becomes_a_project_with_process_rewards(tmp_path: Path) -> None:
    checkout(tmp_path / "fork", CHECKOUT)
    made = vextract("new", tmp_path / "own", "--from-verl-run", tmp_path / "fork/run.sh", "--engine", "hf")
    assert made.code == 0, made.err
    recipe = (tmp_path / "own/config/recipe/verl_run.yaml").read_text()
    for line in ("reward_dpo_coef: 7", "reward_gt_coef: 4", "n: 3", "accuracy_lower_bound: 0.1", "update: after"):
        assert line in recipe
