"""However many processes: the same responses give the same advantages and the same weights, and any number resumes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.processes.launching import SCORE, drive, overrides, saved
from tests.project.running import python
from tests.project.support import Configuration, Maker
from tests.releases import NEWEST

pytestmark = pytest.mark.slow

ACTOR = "actor_rollout_ref.actor"
# 15 responses of 1 to 9 tokens: no number of processes but 1 divides them.
COMMON = (
    "algorithm.adv_estimator=grpo",
    "data.max_response_length=9",
    "data.train_batch_size=5",
    "actor_rollout_ref.rollout.n=3",
    f"{ACTOR}.ppo_mini_batch_size=5",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=15",
    f"{ACTOR}.optim.lr=0.0001",
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=2",
    "trainer.logger=[]",
    f"reward.custom_reward_function.path={SCORE}",
    "local.recompute_old_log_probs=true",
)
ALL_TERMS = (f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.entropy_coeff=0.01")
PPO = (
    "algorithm.adv_estimator=gae",
    "algorithm.use_kl_in_reward=true",
    "algorithm.lam=0.95",
    "actor_rollout_ref.rollout.n=1",
    "data.train_batch_size=15",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=5",
    "critic.optim.lr=0.0001",
)
CASES: dict[str, tuple[str, ...]] = {
    "one_pass": ALL_TERMS,
    "passes_and_epochs": (
        *ALL_TERMS,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=5",
        f"{ACTOR}.ppo_epochs=2",
        "local.max_logits_mb=0.0005",  # logits in pieces
    ),
    "incomplete_mini_batch": (
        *ALL_TERMS,
        "data.train_batch_size=10",
        "actor_rollout_ref.rollout.n=2",
        f"{ACTOR}.ppo_mini_batch_size=4",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",
        f"{ACTOR}.loss_agg_mode=seq-mean-token-mean",
    ),
    "ppo": PPO,
}
FAILURES = {2: "reward", 3: "loss", 4: "1"}
# What an ordinary run tries: two cases, one failure, and a checkpoint of one process that two go on from.
QUICK = {"passes_and_epochs", "incomplete_mini_batch", "whole", "half", "1_to_2", "fails_loss"}
TOKENS = 40  # of a pass, on one process
PAIRS = (f"{ACTOR}.fsdp_config.fsdp_size=2",)  # each pair of processes has a copy of the models
MORE = ("trainer.total_training_steps=4",)


def dynamic(processes: int) -> tuple[str, ...]:
    return (*ALL_TERMS, f"{ACTOR}.use_dynamic_bsz=true", f"{ACTOR}.ppo_max_token_len_per_gpu={TOKENS * processes}")


def nightly(*runs: str) -> list[Any]:
    """Parameters: paths of runs below `runs`, of which an ordinary run has a few only."""
    return [
        pytest.param(run, marks=() if run in ("2/1_to_2", *QUICK) else pytest.mark.thorough, id=run) for run in runs
    ]


@pytest.fixture(scope="module")
def runs(project: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """What each number of processes made of the cases; a checkpoint of each number, and who went on from it."""
    root = tmp_path_factory.mktemp("runs")
    cases = {name: overrides(COMMON, case) for name, case in CASES.items()}
    half, whole = overrides(COMMON, PPO), overrides(COMMON, PPO, MORE)
    alone = overrides(COMMON, dynamic(1))
    failures = {f"fails_{place}": overrides(whole, [f"fails_at={step}@{place}"]) for step, place in FAILURES.items()}
    phases = [
        ("1", 1, {**cases, **{f"dynamic_{n}": overrides(COMMON, dynamic(n)) for n in (2, 4)}, "whole": whole}, {}),
        ("1", 1, {"half": half}, {}),
        ("2", 2, {**cases, "dynamic_2": alone, "whole": whole, **failures}, {}),
        ("2", 2, {"half": half}, {}),
        ("2", 2, {"1_to_2": whole}, {"1_to_2": "1/half"}),
        ("4", 4, {**cases, "dynamic_4": alone, "half": half, "pairs": overrides(half, PAIRS)}, {}),
        ("4", 4, {"2_to_4": whole}, {"2_to_4": "2/half"}),
        ("2_again", 2, {"4_to_2": whole}, {"4_to_2": "4/half"}),
        ("1_again", 1, {"pairs_to_1": whole}, {"pairs_to_1": "4/pairs"}),
    ]
    asked, is_quick = [], "not thorough" in pytestconfig.option.markexpr
    for directory, processes, settings, resumed in phases:
        chosen = {name: case for name, case in settings.items() if not is_quick or (name in QUICK and processes < 4)}
        if chosen:
            asked.append((directory, processes, chosen, {name: resumed[name] for name in resumed.keys() & chosen}))
    drive(project, asked, root)
    return root


def weights(run: Path, step: int = 2) -> dict[str, torch.Tensor]:
    """All weights of a checkpoint, of both models if there are two."""
    found = {}
    for model in ("actor", "critic", "reward_model"):
        there = saved(run / f"global_step_{step}" / model)
        found |= {f"{model}.{name}": weight for name, weight in there.items()}
    return found


def steps(run: Path, rank: int = 0) -> list[dict[str, Any]]:
    """What each step of a run gave on a process."""
    return torch.load(run / f"steps-{rank}.pt", weights_only=False)


def furthest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference between two sets of tensors."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("case", nightly(*CASES, "dynamic"))
def test_the_number_of_processes_changes_nothing(runs: Path, case: str, processes: int) -> None:
    name = f"dynamic_{processes}" if case == "dynamic" else case
    alone, together = runs / "1" / name, runs / str(processes) / name
    for one, other in zip(steps(alone), steps(together), strict=True):
        assert "advantages" in one["columns"]
        assert furthest(one["columns"], other["columns"]) < 1e-5
        assert other["metrics"]["actor/grad_norm"] == pytest.approx(one["metrics"]["actor/grad_norm"], rel=1e-4)
        assert one["metrics"]["actor/grad_norm"] > 1e-3
    assert furthest(weights(alone), weights(together)) < 2e-6  # after two steps
    ranks = [steps(together, rank) for rank in range(processes)]  # which hold the same numbers
    for one, other in zip(ranks[0], ranks[-1], strict=True):
        assert furthest(one["columns"], other["columns"]) == 0
        assert one["metrics"]["actor/grad_norm"] == other["metrics"]["actor/grad_norm"]
    (model,) = alone.glob("toy_model_*/model.safetensors")
    before = {f"actor.{name}": weight for name, weight in load_file(model).items()}
    after = {name: weight for name, weight in weights(together).items() if name.startswith("actor.")}
    assert furthest(before, after) > 5e-5


@pytest.mark.parametrize("resumed", nightly("2/1_to_2", "4/2_to_4", "2_again/4_to_2", "1_again/pairs_to_1"))
def test_any_number_of_processes_goes_on(runs: Path, resumed: str) -> None:
    assert furthest(weights(runs / resumed, 4), weights(runs / "1" / "whole", 4)) < 4e-6  # after four steps
    assert len(steps(runs / resumed)) == 2


@pytest.mark.parametrize("name", nightly(*(f"fails_{place}" for place in FAILURES.values())))
def test_a_step_that_fails_is_saved_and_repeated(runs: Path, name: str) -> None:
    """The reward fails on rank 0, the loss on both, the rollout on one. Both see it, and agree on what is saved."""
    run, place = runs / "2" / name, name.removeprefix("fails_")
    seen = [json.loads((run / f"failure-{rank}.json").read_text()) for rank in range(2)]
    words = {"reward": "judge is out of order", "loss": "loss cannot be computed", "1": "this process is gone"}
    saved = {"loss": "was not saved: part of this step's update had been made"}  # the critic's
    for failure in seen:
        assert words[place] in failure["text"]
        assert saved.get(place, "The state from before this step is saved") in "\n".join(failure["notes"])
    assert seen[0]["type"] == seen[1]["type"]
    assert furthest(weights(run, 4), weights(runs / "2" / "whole", 4)) == 0


def test_processes_share_each_mini_batch_equally(made: Maker, tmp_path: Path) -> None:
    """In a default project, where two passes of one process are one pass of each of two; three cannot share it."""
    even = ("data.train_batch_size=4", "actor_rollout_ref.rollout.n=2", f"{ACTOR}.ppo_mini_batch_size=2")
    passes = (f"{ACTOR}.ppo_micro_batch_size_per_gpu=2", f"{ACTOR}.ppo_epochs=2")
    case = {"even": overrides(COMMON, ALL_TERMS, even, passes)}
    root = made(Configuration(NEWEST[-1])).root
    drive(root, [("1", 1, case, {}), ("2", 2, case, {})], tmp_path)
    assert furthest(weights(tmp_path / "1/even"), weights(tmp_path / "2/even")) < 2e-6
    for one, other in zip(steps(tmp_path / "1/even"), steps(tmp_path / "2/even"), strict=True):
        for name in ("actor/grad_norm", "actor/pg_loss", "actor/kl_loss", "actor/entropy"):
            assert other["metrics"][name] == pytest.approx(one["metrics"][name], rel=1e-4, abs=1e-6)
    code = "import sys; from toy.workers.passes import Passes; from types import SimpleNamespace as N\n"
    code += "Passes(N(ppo_mini_batch_size=4)).share_between(N(world_size=3, rank=0))"
    said = python(root, "-c", code).stderr
    assert "an update of 4 responses cannot be shared equally by 3 processes" in said
    assert "vextract add shared_passes" in said
