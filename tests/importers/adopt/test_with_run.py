"""A fork is adopted together with a launch script of its own: one project has the edits and the experiment."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importers.adopt.forks import ALGOS, TRAINER, Fork, fates, tree_of

RELEASE = "0.5.0"
NAIVE = "workers/reward_manager/naive.py"


@pytest.fixture
def fork(fork_0_5_0: Fork) -> Fork:
    """A fork that changed a loss, has an estimator and a manager of its own, and a script that goes by them."""
    fork = fork_0_5_0
    (fork.top / ".git").mkdir()
    fork.into(ALGOS, "compute_policy_loss", "token_1 = 1")
    fork.append(ALGOS, '\n\n@register_adv_est("mine_2")\ndef mine_2(**kwargs):\n    return kwargs\n')
    fork.into(TRAINER, "fit", "token_3 = 1")
    fork.into(NAIVE, "__call__", "token_4 = 1")
    (fork.top / "run.sh").write_text(
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=mine_2 actor_rollout_ref.rollout.n=3 \\\n"
        "  actor_rollout_ref.model.path=$MODEL data.train_batch_size=6 trainer.mine_5=1\n"
    )
    return fork


def adopted(run: Any, fork: Fork, project: Path, *more: str) -> dict[str, Any]:
    result = run("adopt", fork.top, project, *asked(fork), "--json", *more)
    assert result.code == 0, result.err
    return json.loads(result.out)


def asked(fork: Fork) -> tuple[Any, ...]:
    return ("--from-verl-run", fork.top / "run.sh", "--keep-unknown", "--set", "MODEL=/m", "--offline")


def test_a_project_has_the_edits_and_the_experiment(run: Any, tmp_path: Path, fork: Fork) -> None:
    project = tmp_path / "toy"
    report = adopted(run, fork, project)
    assert report["release"] == RELEASE
    found = fates(report)
    assert (found[f"verl/{ALGOS}:compute_policy_loss"], found[f"verl/{ALGOS}:mine_2"]) == ("carried", "carried")
    assert found[f"verl/{TRAINER}:RayPPOTrainer"] == "orphaned"
    assert "token_1 = 1" in (project / "toy/vendored/algorithms/core_algos.py").read_text()
    assert report["options"]["engine"] == "vllm", "which is verl's default"
    settings = report["run"]["settings"]
    assert settings["actor_rollout_ref.rollout.n"] == 3
    assert settings["actor_rollout_ref.model.path"] == "/m"
    recipe = (project / "config/recipe/verl_run.yaml").read_text()
    assert "train_batch_size: 6" in recipe
    assert "mine_5" in (project / "config/unknown.yaml").read_text()
    assert "token_4 = 1" in (project / "toy/custom/verl_program.py").read_text()
    (about,) = [item for item in report["run"]["remarks"] if item["key"] == "verl"]
    assert "core_algos.py, trainer/ppo/ray_trainer.py: no known version" in about["why"]
    assert "below orphaned/" in about["why"]
    # What is registered in the project already does not come a second time.
    assert not (project / "toy/custom/verl_algorithms.py").exists()
    assert settings["algorithm.adv_estimator"] == "mine_2"


def test_what_it_writes_is_the_owners_edit(run: Any, tmp_path: Path, fork: Fork) -> None:
    """The lock and the base are those of a project without the fork's edits; once more it gives the same bytes."""
    project, again, plain = tmp_path / "a/toy", tmp_path / "b/toy", tmp_path / "c/toy"
    for place in (project, again):
        adopted(run, fork, place, "--verl", RELEASE)
    assert tree_of(project) == tree_of(again)
    assert run("new", plain, *asked(fork), "--verl", RELEASE).code == 0
    assert tree_of(project)[".vextract/base.zip"] == tree_of(plain)[".vextract/base.zip"]
    status = json.loads(run("status", project, "--json").out)
    states = {file["path"]: file["state"] for file in status["files"]}
    assert states["toy/vendored/algorithms/core_algos.py"] == "edited"
    assert run("sync", project, "--offline").code == 0
    kept = {path: data for path, data in tree_of(project).items() if not path.startswith(".vextract/")}
    assert kept.items() <= tree_of(again).items()


@pytest.mark.thorough
def test_nothing_is_written_without_a_target(run: Any, tmp_path: Path, fork: Fork) -> None:
    before = tree_of(tmp_path)
    result = run("adopt", fork.top, *asked(fork), "--verl", RELEASE)
    assert result.code == 0, result.err
    assert "mine_2 with vllm on /m" in result.out + result.err
    assert tree_of(tmp_path) == before
    result = run("adopt", fork.top, tmp_path / "toy", "--keep-unknown", "--verl", RELEASE)
    assert result.code == 2
    assert "pass --from-verl-run FILE as well" in result.err
    result = run("adopt", fork.top, tmp_path / "toy", "--from-verl-run", fork.top / "run.sh", "--verl", RELEASE)
    assert result.code == 2
    assert "--keep-unknown" in result.err
    assert tree_of(tmp_path) == before
