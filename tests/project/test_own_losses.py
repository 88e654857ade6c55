"""Policy losses of an owner's own, over one pass and over several, and with gradients that are no numbers."""

import json
from pathlib import Path

import pytest
import torch

from tests.project.running import SMALL, check_forked, overrides
from tests.project.support import PACKAGE, Configuration, Maker, copy_of
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
MEAN = '''

@register_policy_loss("plain_mean")
def plain_mean(old_log_prob, log_prob, advantages, response_mask, **more):
    """The mean of a pass, as losses of before verl 0.8.0 are."""
    return -(log_prob * advantages * response_mask).sum() / response_mask.sum(), {}
'''
WHOLE = MEAN.replace("plain_mean", "whole_mean").replace(
    "-(log_prob * advantages * response_mask).sum() / response_mask.sum()",
    "agg_loss(-log_prob * advantages, response_mask, 'token-mean', **more['config'].global_batch_info)",
)
IMPORTS = "\n\nfrom ..vendored.algorithms.core_algos import agg_loss, register_policy_loss  # noqa: E402\n"
TANH = MEAN.replace("plain_mean", "tanh").replace("(log_prob *", "(torch.tanh(log_prob - old_log_prob) *")
NOTE = "note: the policy loss 'plain_mean' is the mean of a pass, and an optimizer step adds 4 of them up"
ROWS = ("data.train_batch_size=4", "actor_rollout_ref.rollout.n=4", "actor_rollout_ref.actor.ppo_mini_batch_size=4")


VANILLA = """

@register_policy_loss("vanilla")
def compute_policy_loss_of_a_pass(old_log_prob, log_prob, advantages, response_mask, *args, **more):
    return -(torch.exp(log_prob - old_log_prob) * advantages * response_mask).sum() / response_mask.sum(), {}
"""


def gradient(root: Path, loss: str, rows: int) -> tuple[float, str]:
    """The norm of the first gradient by a loss with so many responses in a pass, and what the run says."""
    folder = root / "runs" / f"{loss}{rows}"
    settings = overrides(
        *ROWS,
        f"actor_rollout_ref.actor.policy_loss.loss_mode={loss}",
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={rows}",
        "trainer.total_training_steps=1",
        f"trainer.default_local_dir={folder}",
    )
    done = check_forked(root, "main.py", *settings)
    (row,) = (json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return row["actor/grad_norm"], done.stderr


def test_a_loss_is_of_the_whole_batch_or_a_note_says_that_it_is_not(made: Maker, tmp_path: Path) -> None:
    root = copy_of(
        made(Configuration(NEWEST[-1], "hf", features=("hook_checks", "reward_logs", "reward_processes"))), tmp_path
    )
    hooks = root / PACKAGE / "custom/algorithms.py"
    hooks.write_text(hooks.read_text(encoding="utf-8") + IMPORTS + MEAN + WHOLE + TANH, encoding="utf-8")
    (whole, _), (parts, said) = gradient(root, "whole_mean", 16), gradient(root, "whole_mean", 4)
    assert parts == pytest.approx(whole, rel=1e-4)
    assert "is the mean of a pass" not in said
    (whole, quiet), (parts, said) = gradient(root, "plain_mean", 16), gradient(root, "plain_mean", 4)
    assert parts > 3 * whole
    assert "is the mean of a pass" not in quiet, "one pass is the batch"
    assert said.count(NOTE) == 1
    _, said = gradient(root, "tanh", 4)
    assert said.count(NOTE.replace("plain_mean", "tanh")) == 1, "its value is 0 where the policy has not moved"
    _, said = gradient(root, "vanilla", 4)
    assert "is the mean of a pass" not in said
    vendored = root / PACKAGE / "vendored/algorithms/core_algos.py"  # so is an edit of verl's own
    vendored.write_text(vendored.read_text(encoding="utf-8") + VANILLA, encoding="utf-8")
    _, said = gradient(root, "vanilla", 4)
    assert said.count(NOTE.replace("plain_mean", "vanilla")) == 1
    assert f"{PACKAGE}/vendored/algorithms/core_algos.py" in said


# Its value is that of the clipped loss; its gradient is not finite.
STEEP = """

from ..vendored.algorithms.core_algos import get_policy_loss_fn, register_policy_loss  # noqa: E402


@register_policy_loss("steep")
def steep(log_prob, **inputs):
    loss, metrics = get_policy_loss_fn("vanilla")(log_prob=log_prob, **inputs)
    return loss + (log_prob - log_prob.detach()).square().sum().sqrt(), metrics
"""


def test_gradients_that_are_no_numbers_end_the_run(made: Maker, tmp_path: Path) -> None:
    """After a few steps, and leave what led there, with the feature watch."""
    project = copy_of(made(Configuration(NEWEST[-1], features=("watch",))), tmp_path)
    algorithms = project / "toy" / "custom" / "algorithms.py"
    algorithms.write_text(algorithms.read_text() + STEEP)
    settings = ("actor_rollout_ref.actor.policy_loss.loss_mode=steep", "trainer.total_training_steps=6")
    done = check_forked(project, "main.py", *SMALL, *settings, "trainer.default_local_dir=run", code=1)
    assert "the actor's gradient is nan, for 3 steps in a row, which changed no weight" in done.stderr
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
