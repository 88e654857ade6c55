"""Rollouts that are one batch ahead: the server writes while the batch before is trained on."""

import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.conftest import Run

pytestmark = pytest.mark.slow
AHEAD = ("local.rollout.ahead=1", "actor_rollout_ref.rollout.calculate_log_probs=true", "local.server.repeatable=true")


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


@pytest.mark.thorough
def test_two_processes_that_are_stopped_draw_the_batch_again(run: Callable[..., Run]) -> None:
    one = run(*AHEAD, "trainer.total_training_steps=100000", processes=2)
    one.wait_for_steps(3)
    os.kill(one.process.pid, signal.SIGTERM)
    one.end(timeout=60)
    done = len(one.steps())
    assert (one.directory / f"global_step_{done}").is_dir()
    again = run(*AHEAD, "trainer.test_freq=1", f"trainer.total_training_steps={done + 2}", processes=2)
    assert again.end(timeout=180) == 0, again.text()
    assert behind(again)[-2:] == [0, 1]


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
