"""A run whose gradients are no numbers ends after a few steps, and leaves what led there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.project.running import SMALL, forked
from tests.project.support import Configuration, make
from tests.releases import NEWEST

# Its value is that of the clipped loss; its gradient is not finite.
LOSS = """

from ..vendored.algorithms.core_algos import get_policy_loss_fn, register_policy_loss  # noqa: E402


@register_policy_loss("steep")
def steep(log_prob, **inputs):
    loss, metrics = get_policy_loss_fn("vanilla")(log_prob=log_prob, **inputs)
    return loss + (log_prob - log_prob.detach()).square().sum().sqrt(), metrics
"""


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("features", [(), ("watch",)])
def test_gradients_that_are_no_numbers_end_the_run(tmp_path: Path, features: tuple[str, ...]) -> None:
    project = make(Configuration(NEWEST[-1], features=features), tmp_path / "project").root
    algorithms = project / "toy" / "custom" / "algorithms.py"
    algorithms.write_text(algorithms.read_text() + LOSS)
    settings = ("actor_rollout_ref.actor.policy_loss.loss_mode=steep", "trainer.total_training_steps=6")
    done = forked(project, "main.py", *SMALL, *settings, "trainer.default_local_dir=run")
    assert done.returncode == 1, done.stderr
    assert "the actor's gradient is nan, for 3 steps in a row, which changed no weight" in done.stderr
    if not features:
        assert "hint: lower actor_rollout_ref.actor.optim.lr" in done.stderr
        return
    assert "of step 3: all numbers of the batch are finite" in done.stderr
    assert "hint: look at the sample in that file" in done.stderr
    samples = [json.loads(line) for line in (project / "run/not_finite/step_3.jsonl").read_text().splitlines()]
    tensors = torch.load(project / "run/not_finite/step_3.pt")
    assert len(samples) == len(tensors["responses"]) == 8 * 4
    for row, sample in enumerate(samples):
        assert sample["tokens"] == tensors["responses"][row][tensors["response_mask"][row].bool()].tolist()
        assert sample["score"] == tensors["token_level_scores"][row].sum()
        assert {"prompt", "response", "ground_truth"} <= sample.keys()
    assert not list((project / "run").glob("global_step_*"))
