"""Rollouts from the real vLLM server, on a CPU, and what its workers tell of an update that one of them cannot take.

The server may be installed apart from the trainer: VEXTRACT_VLLM_PYTHON names a Python that has vLLM, if the one that
runs the tests has not.
"""

import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.server.conftest import Run, wait_until

PYTHON = os.environ.get("VEXTRACT_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else None)

pytestmark = pytest.mark.slow


@pytest.mark.vllm
@pytest.mark.skipif(PYTHON is None, reason="needs vLLM, here or in the Python that VEXTRACT_VLLM_PYTHON names")
@pytest.mark.parametrize("steps", [3, pytest.param(40, marks=pytest.mark.thorough)])
def test_a_run_has_the_policys_tokens_after_each_update_and_leaves_nothing_when_it_is_killed(
    vllm_project: Path, tmp_path: Path, start: Callable[..., Run], steps: int
) -> None:
    """After forty steps it has learnt."""
    run = start(
        vllm_project,
        tmp_path / "run",
        "actor_rollout_ref.rollout.mode=async",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "actor_rollout_ref.rollout.n=16",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
        "data.env.task=succ",
        "trainer.total_training_steps=1000",
        "local.server.bucket_megabytes=1",
        f"local.server.python={PYTHON}",
    )
    run.wait_for_steps(steps, timeout=250)
    rows = run.steps()[:steps]
    # The server was started with random weights: only the policy's own can have the policy's probabilities.
    assert max(row["training/rollout_probs_diff_max"] for row in rows) < 1e-4
    rewards = [row["critic/rewards/mean"] for row in rows]
    assert steps < 10 or sum(rewards[-5:]) > sum(rewards[:5]) + 5 * 0.1
    os.kill(run.process.pid, signal.SIGKILL)
    wait_until(lambda: not run.server_processes(), timeout=30)


def test_what_goes_wrong_with_an_update_is_told(vllm_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first copy of the model returns it, another one raises it, since vLLM drops what that returns."""
    monkeypatch.syspath_prepend(str(vllm_project))
    module = importlib.import_module("vll.workers.servers.vllm_weights")

    def receiver(copy: int) -> Any:
        found = module.WeightReceiver()
        found.rank = 0
        found.vllm_config = SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_index=copy, world_size=1))
        return found

    def refuse(receiver: Any, path: str) -> None:
        raise ValueError(f"{path} has another shape")

    answer = module._answering(refuse)(receiver(0), "bucket-0")
    assert answer == {"error": "ValueError: bucket-0 has another shape"}
    with pytest.raises(RuntimeError, match="copy 1 of the model: ValueError: bucket-0 has another shape"):
        module._answering(refuse)(receiver(1), "bucket-0")
    for copy in (0, 1):
        assert module._answering(lambda receiver: None)(receiver(copy)) == {"done": True}
    # A step that raised in the first copy would end vLLM's call with nothing said of why.
    for step in ("start_weights", "load_weights_file", "finish_weights"):
        assert hasattr(getattr(module.WeightReceiver, step), "__wrapped__"), step
