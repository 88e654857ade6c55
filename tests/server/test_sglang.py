"""Runs of an sglang project whose server is started by the trainer.

SGLang has no build for a CPU. What is started in its place is the project's own double (tests/sglang_double.py): it
takes the documented command line and requests, and nothing else.
"""

import importlib
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import check_forked
from tests.server.conftest import Run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")]
# Rollouts that are one batch ahead: the server writes while the batch before is trained on.
LEARNS = ("data.env.task=succ", "actor_rollout_ref.rollout.n=16")  # else all rewards may be equal
AHEAD = ("local.rollout.ahead=1", "actor_rollout_ref.rollout.calculate_log_probs=true", "local.server.repeatable=true")


def test_the_projects_own_tests_of_the_rollout_pass(sglang_project: Path) -> None:
    done = check_forked(sglang_project, "-m", "pytest", "tests/test_rollout.py")
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), "some were skipped"


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_a_run_starts_one_server_and_stops_it(run: Callable[..., Run], processes: int) -> None:
    one = run(
        *LEARNS,
        "trainer.total_training_steps=2",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "actor_rollout_ref.rollout.enable_prefix_caching=false",
        "local.server.repeatable=true",
        processes=processes,
    )
    assert one.end(180) == 0, one.text()
    assert one.server_processes() == []
    assert one.text().count("starting the SGLang server") == 1
    assert "the SGLang server is ready after" in one.text()
    log = (one.directory / "server.log").read_text()
    for option in ("--load-format dummy", "--disable-radix-cache", "--enable-deterministic-inference", "--device cpu"):
        assert option in log.splitlines()[0]
    assert [path.name for path in one.directory.glob("weights-*")] == []
    # The server was started with random weights: only the policy's own can have the policy's probabilities.
    assert len(one.steps()) == 2
    assert one.steps()[0]["actor/grad_norm"] > 0
    assert all(step["training/rollout_probs_diff_max"] < 1e-5 for step in one.steps())


@pytest.mark.parametrize("settings", [(), pytest.param(AHEAD, marks=pytest.mark.thorough)], ids=["each step", "ahead"])
def test_a_server_that_dies_ends_the_run_which_goes_on_as_if_it_had_not(
    run: Callable[..., Run], settings: tuple[str, ...]
) -> None:
    settings = (*LEARNS, *settings, "local.server.repeatable=true")
    one = run(
        *settings, "trainer.total_training_steps=100000", "actor_rollout_ref.actor.optim.lr_scheduler_type=constant"
    )
    one.wait_for_steps(2)
    os.kill(one.server(), signal.SIGKILL)
    assert one.end(timeout=60) == 1
    assert "error: the SGLang server has ended" in one.text()
    assert "Traceback" not in one.text()
    assert re.search("The state (from before this step is saved|after step)", one.text())
    assert one.server_processes() == []
    last = len(one.steps()) + 2
    found = []
    for name in ("run", "whole"):
        again = run(*settings, f"trainer.total_training_steps={last}", name=name)
        assert again.end() == 0, again.text()
        assert any(step["actor/grad_norm"] > 0 for step in again.steps()[-2:])
        found.append(weights(again, last))
    # What a dead server was writing ahead is written anew, with the weights of now.
    assert AHEAD[0] in settings or found[0] == found[1]


def behind(run: Run) -> list[float]:
    """How many steps old the weights were that each step's responses were written with."""
    return [step["training/steps_behind"] for step in run.steps()]


def weights(run: Run, step: int) -> bytes:
    """The policy of a checkpoint."""
    return (run.directory / f"global_step_{step}/actor/model.safetensors").read_bytes()


@pytest.mark.thorough
def test_it_goes_on_exactly_after_a_checkpoint(run: Callable[..., Run]) -> None:
    common = (*AHEAD, "trainer.save_freq=3")
    whole = run(*common, "trainer.total_training_steps=6", name="whole")
    assert whole.end() == 0, whole.text()
    assert behind(whole) == [0, 1, 1, 0, 1, 1]  # what a checkpoint is followed by is written with its weights
    for steps in (3, 6):
        part = run(*common, f"trainer.total_training_steps={steps}", name="part")
        assert part.end() == 0, part.text()
        assert weights(part, steps) == weights(whole, steps)
    assert behind(part) == behind(whole)
    for step in whole.steps():
        stale = step["training/rollout_probs_diff_max"] > 1e-5
        assert stale <= bool(step["training/steps_behind"])
    assert any(step["rollout_corr/rollout_is_max"] > 1.01 for step in whole.steps())


REFUSED = {
    "calculate_log_probs": "actor_rollout_ref.rollout.calculate_log_probs=false",
    "filter_groups": "algorithm.filter_groups.enable=true",
    "local.rollout.ahead=2": "local.rollout.ahead=2",
    "actor_rollout_ref.rollout.mode=async": "actor_rollout_ref.rollout.mode=sync",
}


def test_what_cannot_be_ahead_is_refused(sglang_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts that depend on the step before, too."""
    monkeypatch.syspath_prepend(str(sglang_project))
    names = ("settings.loading", "errors", "settings.ahead")
    loading, errors, ahead = (importlib.import_module(f"sgl.{name}") for name in names)
    for said, setting in REFUSED.items():
        config = loading.load_config(sglang_project / "config", AHEAD)
        ahead.check_ahead(config)
        key, _, value = setting.partition("=")
        loading.OmegaConf.update(config, key, {"null": None, "true": True, "false": False, "2": 2}.get(value, value))
        with pytest.raises(errors.ConfigError, match="hint: ") as error:
            ahead.check_ahead(config)
        assert said in str(error.value)

    class Curriculum:
        def on_batch_end(self, batch: object) -> None: ...

    ahead.check_dataset_ahead([])
    with pytest.raises(errors.ConfigError, match="Curriculum"):
        ahead.check_dataset_ahead(Curriculum())
