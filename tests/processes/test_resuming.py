"""A run that is stopped and started again, as often as may be, is the run that was not: bit for bit."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.processes.launching import overrides, run_driver, saved

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("resume_driver.py")
HOOKS = Path(__file__).with_name("resume_hooks.py")
ACTOR = "actor_rollout_ref.actor"
LAST = 8  # two epochs of four steps
COMMON = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=4",
    "data.train_max_samples=18",  # of which each epoch leaves two out, and each time others
    "data.max_response_length=3",
    "actor_rollout_ref.rollout.n=4",
    f"{ACTOR}.ppo_mini_batch_size=2",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=4",
    f"{ACTOR}.optim.lr=0.001",
    f"{ACTOR}.optim.lr_warmup_steps=5",
    f"trainer.total_training_steps={LAST}",
    "trainer.val_before_train=false",
    "trainer.test_freq=5",
    "trainer.save_freq=-1",
    "trainer.logger=[]",
    "local.save_last=true",
)
GROUPS_WORKERS = (
    "data.dataloader_num_workers=2",
    "algorithm.filter_groups.enable=true",
    "algorithm.filter_groups.max_num_gen_batches=0",
    "data.gen_batch_size=3",
    "data.env.task=succ",
)
PPO = (
    "algorithm.adv_estimator=gae",
    "algorithm.use_kl_in_reward=true",
    "algorithm.kl_ctrl.type=adaptive",
    "algorithm.kl_ctrl.horizon=50",
    "critic.optim.lr=0.001",
)
PRIME = (
    "algorithm.adv_estimator=rloo",
    "local.prime.enable=true",
    "local.prime.accuracy_upper_bound=0.3",
    "local.prime.oversample_factor=2",
    "data.env.task=succ",
)
BACKGROUND = ("local.checkpoint.asynchronous=true", "trainer.save_freq=1")
CASES: dict[str, tuple[int, tuple[str, ...]]] = {
    "plain": (1, ()),
    "groups_workers": (1, GROUPS_WORKERS),
    "learning": (1, (f"data.custom_cls.path={HOOKS}", "data.custom_cls.name=Learning")),
    "pair_critic": (2, PPO),
    "pair_prime": (2, PRIME),
    "pair_in_background": (2, BACKGROUND),
    "pair_whole_in_background": (2, ("local.checkpoint.sharded=false", *BACKGROUND)),
}
STOPS = [1, 4, 5]  # the latter: at the end of an epoch, and after the first step of one
# The rest takes minutes.
QUICK = "groups_workers"


def drive(project: Path, directory: Path, case: str, *settings: str, **further: Any) -> str:
    """The case in `directory`, whole and disturbed; returns what it printed."""
    directory.mkdir()
    processes, chosen = CASES[case]
    settings = tuple(overrides(COMMON, chosen, settings))
    cases = [{"directory": str(directory), "processes": processes, "settings": settings, **further}]
    return run_driver(project, DRIVER, cases, directory, timeout=1200)


def check_same(whole: Path, other: Path, case: str) -> None:
    """Rows, samples, weights and everything else in the last checkpoint are equal; times and places aside."""
    assert rows(other) == rows(whole)
    assert len(rows(whole)) == LAST
    samples = [(run / "generations.jsonl").read_text() for run in (whole, other)]
    assert samples[0] == samples[1]
    last = [run / f"global_step_{LAST}" for run in (whole, other)]
    names = [sorted(str(path.relative_to(place)) for path in place.rglob("*")) for place in last]
    assert names[0] == names[1]
    models = ["actor"] + ["critic"] * ("critic" in case) + ["reward_model"] * ("prime" in case)
    for part in (*models, *(f"{model}/optimizer" for model in models)):
        tensors = [saved(place / part) for place in last]
        assert plain(tensors[0]) == plain(tensors[1]), part
        assert tensors[0] or part.endswith("optimizer")  # which is in optimizer.pt if one process wrote all
    for name in names[0]:
        first, second = (place / name for place in last)
        if name.endswith(".pt"):
            states = [torch.load(path, weights_only=False) for path in (first, second)]
            assert plain(states[0]) == plain(states[1]), name
        elif first.is_file() and first.name[:6] != "shard-" and name != "complete.json":  # it has digests of times
            assert first.read_bytes() == second.read_bytes(), name


def rows(directory: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl, without what depends on the clock and on the machine."""
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    clock = re.compile(r"time$|timing|perf/|throughput")
    return [{name: value for name, value in json.loads(line).items() if not clock.search(name)} for line in lines]


def plain(value: Any) -> Any:
    """A checkpoint's state as something that == compares; seconds and the seed of a loader's workers are left out."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, dict):
        clock = re.compile(r"time$|timing|perf/|throughput|^_base_seed$")
        return {name: plain(item) for name, item in value.items() if not clock.search(str(name))}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tobytes() if hasattr(value, "tobytes") else value


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case == QUICK else pytest.mark.thorough) for case in CASES]
)
def test_a_resumed_run_is_the_one_that_was_not_stopped(project: Path, tmp_path: Path, case: str) -> None:
    printed = drive(project, tmp_path / "run", case, stops=STOPS)
    assert printed.count("resuming from") == len(STOPS)
    assert ("learned " in printed) == (case == "learning")
    check_same(tmp_path / "run" / "whole", tmp_path / "run" / "stopped", case)


KILLS = int(os.environ.get("VEXTRACT_KILLS", "12"))


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["plain", "groups_workers", "pair_critic", "pair_in_background"])
def test_a_killed_run_is_the_one_that_was_not_killed(project: Path, tmp_path: Path, case: str) -> None:
    """SIGKILL at random moments: as it starts, in a step, in a checkpoint that is being written, between the two."""
    drive(project, tmp_path / "run", case, "trainer.save_freq=1", kills=KILLS, seed=case)
    killed = sorted((tmp_path / "run").glob("killed_*"))
    assert killed
    for run in killed:
        check_same(tmp_path / "run" / "whole", run, case)
