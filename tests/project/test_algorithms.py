"""Estimators and policy losses, an owner's own among them: alone, over several passes, and without numbers."""

import json
from pathlib import Path

import pytest
import torch

from tests.project.running import SMALL, check_forked, metrics_of, overrides
from tests.project.support import PACKAGE, Configuration, Maker, copy_of
from tests.releases import NEWEST, newest_release

pytestmark = pytest.mark.slow

# Theirs is not the signature that compute_advantage of the same release calls.
FAIL = {"0.7.1": ["optimal_token_baseline", "tir_optimal_token_baseline"]}
# What an estimator makes of four responses of one token, in pairs, and of each alone.
DRIVER = f"""
import copy, json
from pathlib import Path
import numpy as np
import torch
from {PACKAGE} import load_config
from {PACKAGE}.settings.setting_checks import GROUP_ONLY
from {PACKAGE}.training.assembly import COMPARING, check_config
from {PACKAGE}.hooks import import_hooks
from {PACKAGE}.registries import ADV_ESTIMATOR_REGISTRY, compute_advantage
from {PACKAGE}.vendored.protocol import DataProto

def advantages(algorithm, prompts):
    scores, tokens = torch.tensor([1.0, 0.0, 1.0, 1.0])[:, None], torch.ones(4, 1)
    tensors = dict.fromkeys(("token_level_scores", "token_level_rewards"), scores)
    tensors |= dict.fromkeys(("old_log_probs", "rollout_log_probs"), -tokens)
    tensors |= dict.fromkeys(("sum_pi_squared", "values"), 0.5 * tokens)
    if algorithm.adv_estimator == "remax":
        tensors["reward_baselines"] = 0.5 * tokens[:, 0]
    tensors |= dict.fromkeys(("prompts", "response_mask", "responses"), tokens.long())
    tensors["attention_mask"] = tokens.long().expand(-1, 2)
    columns = {{"uid": np.array([*prompts], dtype=object)}}
    columns |= dict.fromkeys(algorithm.get("gdpo_reward_keys") or (), np.array([1.0, 0.0, 1.0, 1.0], dtype=object))
    batch = DataProto.from_dict(tensors, non_tensors=columns)
    settings = {{name: algorithm[name] for name in ("adv_estimator", "gamma", "lam", "norm_adv_by_std_in_grpo")}}
    return compute_advantage(batch, num_repeat=1, config=algorithm, **settings).batch["advantages"]

def of_one(algorithm, compared):
    try:
        alone = advantages(algorithm, "abcd")
    except (AssertionError, ValueError):
        return "none"
    return "same" if torch.allclose(alone, compared) else "other" if alone.any() else "none"

import_hooks()
found, default = {{}}, load_config()  # to compose one takes half a second
for name in [str(getattr(name, "value", name)) for name in ADV_ESTIMATOR_REGISTRY]:
    config = load_config("preset=gdpo") if name == "gdpo" else copy.deepcopy(default)
    config.algorithm.adv_estimator = name
    try:
        if name != "gae":  # the project is without a critic
            check_config(config, 1)
        done = advantages(config.algorithm, "aabb")
        known = "none" if name in GROUP_ONLY else "other" if name in COMPARING else "same"
        found[name] = [list(done.shape), bool(done.isfinite().all()), bool(done.any())]
        found[name].append(name == "group_rank" or of_one(config.algorithm, done) == known)
    except TypeError as error:
        found[name] = str(error)
Path("found.json").write_text(json.dumps(found))
"""


@pytest.mark.parametrize("release", newest_release())
def test_every_estimator_runs_and_takes_a_lone_response_as_the_checks_say(
    made: Maker, release: str, tmp_path: Path
) -> None:
    root = copy_of(made(Configuration(release, "hf")), tmp_path)
    (root / "estimators.py").write_text(DRIVER, encoding="utf-8")
    check_forked(root, "estimators.py")
    found = json.loads((root / "found.json").read_text(encoding="utf-8"))
    fail = {name: said for name, said in found.items() if isinstance(said, str)}
    assert sorted(fail) == FAIL.get(release, [])
    runs = {name: said for name, said in found.items() if name not in fail}
    assert len(runs) >= 8
    assert {name: said for name, said in runs.items() if said != [[4, 1], True, True, True]} == {}


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
    (row,) = metrics_of(folder)
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
