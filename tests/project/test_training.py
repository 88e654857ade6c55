"""Projects of every release train, as they are, with `python main.py`."""

import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.project.running import check_forked, forked, overrides, train
from tests.project.support import PACKAGE, Configuration, Maker, copy_of
from tests.releases import newest_release

pytestmark = pytest.mark.slow


ALWAYS = {
    *(f"actor/{name}" for name in ("entropy", "grad_norm", "lr", "pg_clipfrac", "pg_loss", "ppo_kl")),
    *(f"critic/{name}/mean" for name in ("advantages", "returns", "rewards", "score")),
    *("perf/throughput", "prompt_length/mean", "response_length/mean", "training/global_step"),
    *(f"timing_s/{name}" for name in ("adv", "gen", "step", "update_actor")),
}
WITH_CRITIC = {"timing_s/update_critic", "timing_s/values"} | {
    f"critic/{name}"
    for name in ("grad_norm", "lr", "values/mean", "vf_clipfrac", "vf_explained_var", "vf_loss", "vpred_mean")
}
WITH_KL = {"actor/kl_coef", "actor/kl_loss", "actor/reward_kl_penalty", "actor/reward_kl_penalty_coeff", "timing_s/ref"}


def check(rows: list[dict[str, Any]], wanted: set[str]) -> None:
    """Two steps, with these metrics at least, all finite."""
    assert [row["step"] for row in rows] == [1, 2]
    for row in rows:
        assert wanted - row.keys() == set()
        assert [name for name, value in row.items() if not math.isfinite(value)] == []
        assert row["actor/grad_norm"] > 0


@pytest.mark.parametrize("release", newest_release())
def test_grpo(made: Maker, tmp_path: Path, release: str) -> None:
    root = copy_of(made(Configuration(release, "hf")), tmp_path)
    rows = train(root)
    check(rows, ALWAYS)
    # These two report a loss of 0 where there is none.
    without = {"actor/kl_loss": 0.0} if release in ("0.7.0", "0.7.1") else {}
    assert {name: value for name, value in rows[-1].items() if name in WITH_KL} == without
    assert WITH_CRITIC.isdisjoint(rows[-1])


@pytest.mark.parametrize("release", newest_release())
def test_ppo_with_everything_at_once(made: Maker, tmp_path: Path, release: str) -> None:
    """Critic, reference, KL in the loss and in the reward, entropy, two mini-batches, two epochs."""
    root = copy_of(made(Configuration(release, "hf", everything=True)), tmp_path)
    rows = train(
        root,
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.actor.ppo_epochs=2",
        "actor_rollout_ref.actor.use_kl_loss=true",
        "actor_rollout_ref.actor.entropy_coeff=0.01",
        "algorithm.use_kl_in_reward=true",
        "trainer.save_freq=2",
    )
    check(rows, ALWAYS | WITH_CRITIC | WITH_KL)
    assert rows[0]["actor/reward_kl_penalty"] == pytest.approx(0, abs=1e-6)
    assert rows[1]["actor/reward_kl_penalty"] > 0
    updates = 2 * 2 * 2
    for model in ("actor", "critic"):
        (file,) = root.glob(f"checkpoints/*/*/global_step_2/{model}/optimizer.pt")
        assert optimizer_steps(torch.load(file, weights_only=True)) == {updates}


def optimizer_steps(state: Any) -> set[int]:
    """The values of every `step` in an optimizer's state, however it is nested."""
    if not isinstance(state, dict):
        return set()
    own = {int(value) for key, value in state.items() if str(key).rpartition(".")[2] == "step"}
    return own.union(*map(optimizer_steps, state.values()))


def test_a_missing_package_is_told_from_a_missing_file(project: Path) -> None:
    words = [sys.executable, "-S", "main.py"]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False, env={})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {sys.executable} has no package omegaconf\nhint: ")
    (project / PACKAGE / "vendored/protocol.py").unlink()
    done = check_forked(project, "main.py", code=2)
    said = f"\nerror: the project has no module {PACKAGE}.vendored.protocol\nhint: `vextract sync --removed`"
    assert said in done.stderr


def test_a_run_that_has_ended_says_how_to_train_further(project: Path, tmp_path: Path) -> None:
    saving = ("local.save_last=true", "trainer.resume_mode=auto", f"trainer.default_local_dir={tmp_path / 'a run'}")
    assert forked(project, "main.py", *overrides(*saving, "trainer.total_training_steps=1")).returncode == 0
    again = check_forked(project, "main.py", *overrides(*saving, "trainer.total_training_steps=2"))
    (further,) = re.findall(r"to train further from it: (.+)", again.stderr)
    done = check_forked(
        project, "main.py", *overrides(*saving, "trainer.total_training_steps=3", *shlex.split(further))
    )
    assert "step 2/3" in done.stdout
    assert "step 1/3" not in done.stdout


KILLED = """
import os, sys
from main import main
from toy.tracking.run_tracker import RunTracker
log = RunTracker.log
RunTracker.log = lambda self, metrics, step: os._exit(9) if step == 2 else log(self, metrics, step)
main(sys.argv[1:])
"""


def test_a_step_is_recorded_whose_run_was_killed_once_it_was_saved(project: Path, tmp_path: Path) -> None:
    saving = ("trainer.save_freq=1", "trainer.resume_mode=auto", "trainer.total_training_steps=3")
    settings = [overrides(*saving, f"trainer.default_local_dir={tmp_path / name}") for name in ("killed", "whole")]
    check_forked(project, "-c", KILLED, *settings[0], code=9)
    for words in settings:
        check_forked(project, "main.py", *words)
    read = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("killed", "whole")]
    killed, whole = ([json.loads(line) for line in lines] for lines in read)
    assert [row["step"] for row in killed] == [row["step"] for row in whole] == [1, 2, 3]
    measured = re.compile(r"^time$|timing|perf/")
    assert {name: value for name, value in whole[1].items() if not measured.search(name)}.items() <= killed[1].items()
