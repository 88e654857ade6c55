"""`main.py --multirun`: several runs, a report over all of them, and what becomes of the others when one fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import forked
from tests.project.support import Configuration, Made
from tests.releases import NEWEST

SMALL = (
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "trainer.total_training_steps=1",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
)


@pytest.mark.usefixtures("verl")
@pytest.mark.thorough
def test_each_run_has_a_directory_and_all_have_a_report(made: Callable[[Configuration], Made], tmp_path: Path) -> None:
    root = made(Configuration(NEWEST[-1], "hf", features=("sweep",))).root
    where = tmp_path / "a run, of mine"
    settings = (*SMALL, f'trainer.default_local_dir="{where}"', "actor_rollout_ref.actor.optim.lr=1e-6,1e-5")
    done = forked(root, "main.py", "--multirun", *settings, "local.save_last=false")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (where / "sweep").iterdir()) == ["1_lr=1e-06", "2_lr=1e-05"]
    rates = [(where / "sweep" / name / "config.yaml").read_text() for name in ("1_lr=1e-06", "2_lr=1e-05")]
    assert ["lr: 1.0e-06" in rates[0], "lr: 1.0e-05" in rates[1]] == [True, True]
    assert f"compare them: vextract report '{where}/sweep/1_lr=1e-06'" in done.stdout


@pytest.mark.usefixtures("verl")
def test_a_mistake_in_any_run_is_found_before_the_first(made: Callable[[Configuration], Made], tmp_path: Path) -> None:
    root = made(Configuration(NEWEST[-1], "hf", features=("sweep",))).root
    done = forked(root, "main.py", "-m", *SMALL, f"trainer.default_local_dir={tmp_path}", "preset=grpo,gpro")
    assert done.returncode == 2
    assert "did you mean grpo?" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("verl")
def test_a_sweep_that_cannot_be(made: Callable[[Configuration], Made], tmp_path: Path) -> None:
    root = made(Configuration(NEWEST[-1], "hf", features=("sweep",))).root
    for arguments, said in (
        (("--multirun", "data.train_batch_size=interval(1,9)"), "has no end of values\nhint: list some: "),
        (("--multirun", "data.train_batch_sze=4,8"), "did you mean data.train_batch_size"),
    ):
        done = forked(root, "main.py", *arguments, f"trainer.default_local_dir={tmp_path}")
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []
