"""What the actor learns from is a batch, however many passes and processes it is divided into."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.fixes.support import TRAINING, Case, Rows, Vendored
from tests.releases import ALL, LAST_WITH_DP_ACTOR, NEWEST

ROWS, LENGTH = 8, 5
WHOLE = [[list(range(ROWS))]]
PASSES = [[[0], [1, 2], [3, 4, 5, 6, 7]]]
RANKS = [[[0, 1], [2]], [[3, 4, 5], [6, 7]]]
MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
# Up to 0.7.1 the actor takes the mean over passes, as upstream means it.
SINCE_THE_ENGINE = [
    pytest.param(release, marks=() if release == NEWEST[-1] else pytest.mark.thorough)
    for release in ALL
    if release > LAST_WITH_DP_ACTOR
]


def test_gmpo_does_not_depend_on_the_passes(case: Case, fixed: Vendored, broken: Vendored) -> None:
    whole, loss = _gradient(fixed, "geo_mean", MODES[0], WHOLE)
    assert torch.equal(whole, _gradient(broken, "geo_mean", MODES[0], WHOLE)[0])
    for division in (PASSES, RANKS):
        parts, sum_of_parts = _gradient(fixed, "geo_mean", MODES[0], division)
        torch.testing.assert_close(parts, whole)
        assert sum_of_parts == pytest.approx(loss)
    assert _gradient(broken, "geo_mean", MODES[0], PASSES)[0].norm() > 2 * whole.norm()


@pytest.mark.usefixtures("_on_a_cpu")
@pytest.mark.parametrize("release", SINCE_THE_ENGINE)
def test_no_loss_depends_on_the_passes(vendored: Callable[..., Vendored], release: str) -> None:
    """Every registered loss, in every way of averaging: the same gradient, or it stands in the list."""
    package = vendored(release, TRAINING)
    names = set(package.get("vendored.algorithms.core_algos", "POLICY_LOSS_REGISTRY")) - {"bypass_mode"}
    depend = {
        name
        for name in sorted(names)
        for mode in MODES
        for division in (PASSES, RANKS)
        if not torch.allclose(
            _gradient(package, name, mode, division)[0], _gradient(package, name, mode, WHOLE)[0], rtol=1e-4, atol=1e-7
        )
    }
    assert depend == set(package.get("absent", "SHIPPED")["notes_on_passes"]) - {"token-mean"}
    assert len(names) >= 10


@pytest.mark.usefixtures("_on_a_cpu")
@pytest.mark.parametrize("release", SINCE_THE_ENGINE)
def test_no_estimator_depends_on_the_order(vendored: Callable[..., Vendored], release: str) -> None:
    """Ranks and passes share a batch out by rows: advantages belong to their rows, wherever these are."""
    package = vendored(release, TRAINING)
    order = np.random.RandomState(3).permutation(ROWS)
    names = sorted(
        str(getattr(name, "value", name))
        for name in package.get("vendored.algorithms.core_algos", "ADV_ESTIMATOR_REGISTRY")
    )
    for name in names:
        straight, shuffled = _advantages(package, name, np.arange(ROWS)), _advantages(package, name, order)
        torch.testing.assert_close(shuffled, straight[order], msg=name)
    assert len(names) >= 10


def _gradient(package: Vendored, name: str, mode: str, division: list[list[list[int]]]) -> tuple[torch.Tensor, float]:
    """What processes and their passes leave at the log-probabilities of a batch, and the loss that is reported.

    Args:
        division: of each process, of each pass, the rows. As FSDP does, the mean over the processes is taken.
    """
    drawn = torch.randn(4, ROWS, LENGTH, generator=torch.Generator().manual_seed(2))
    mask = torch.arange(LENGTH) < torch.tensor([5, 1, 2, 4, 3, 5, 2, 4]).unsqueeze(1)
    new, old = (drawn[0] * 0.5 - 1).requires_grad_(), drawn[0] * 0.5 - 1 + drawn[1] * 0.3
    advantages = drawn[2, :, :1].expand(-1, LENGTH).contiguous()
    losses, config = package.module("vendored.algorithms.losses"), _config(package, name, mode)
    reported = 0.0
    for rows in (rows for passes in division for rows in passes):
        batch = Rows(old_log_probs=old[rows], advantages=advantages[rows], response_mask=mask[rows])
        batch.update(ref_log_prob=old[rows] + 0.1, rollout_is_weights=drawn[3][rows].exp())
        batch.update(dp_size=len(division), batch_num_tokens=int(mask.sum()), global_batch_size=ROWS)
        output = {"log_probs": new[rows], "entropy": -new[rows]}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(losses, "no_padding_2_padding", lambda values, data: values)
            loss, metrics = losses.ppo_loss(config, output, batch)
        (loss / len(division)).backward()
        reported += float(sum(metrics["actor/pg_loss"].values)) / len(division)
    assert new.grad is not None
    return new.grad, reported


def _config(package: Vendored, name: str, mode: str) -> Any:
    actor = package.module("vendored.workers.config.actor")
    policy = {"loss_mode": name, "clip_cov_ratio": 0.3, "clip_cov_lb": -5.0, "kl_cov_ratio": 0.3}
    known = actor.PolicyLossConfig.__dataclass_fields__
    policy |= {"dro_beta": 0.1} if "dro_beta" in known else {}
    return actor.FSDPActorConfig(
        rollout_n=2,
        ppo_micro_batch_size_per_gpu=1,
        loss_agg_mode=mode,
        loss_scale_factor=7,
        use_kl_loss=True,
        entropy_coeff=0.01,
        policy_loss=actor.PolicyLossConfig(**policy),
    )


def _advantages(package: Vendored, name: str, order: np.ndarray) -> torch.Tensor:
    """The advantages of a batch whose rows stand in an order: groups of two to four responses, of unequal lengths."""
    drawn = torch.randn(4, ROWS, LENGTH, generator=torch.Generator().manual_seed(5))
    mask = (torch.arange(LENGTH) < torch.tensor([5, 1, 2, 4, 3, 5, 2, 4]).unsqueeze(1)).float()
    scores = torch.tensor([1.0, 0.0, 0.5, 1.0, 0.0, 0.2, 0.9, 0.3])
    rewards = torch.zeros(ROWS, LENGTH).scatter(1, mask.sum(1, keepdim=True).long() - 1, scores.unsqueeze(1))
    columns = {
        "token_level_rewards": rewards,
        "response_mask": mask,
        "prompts": torch.ones(ROWS, 2, dtype=torch.long),
        "attention_mask": torch.cat([torch.ones(ROWS, 2), mask], 1).long(),
        "values": drawn[0],
        **({"reward_baselines": drawn[1, :, 0]} if name == "remax" else {}),
        "old_log_probs": -drawn[2].abs(),
        "sum_pi_squared": torch.sigmoid(drawn[3]),
    }
    uids = np.array(["a", "b", "a", "b", "c", "c", "a", "c"], dtype=object)
    others = {"uid": uids, "acc": np.array(scores), "form": np.array(drawn[0, :, 0])}
    data = package.get("vendored.protocol", "DataProto").from_dict(
        {key: value[order] for key, value in columns.items()}, {key: value[order] for key, value in others.items()}
    )
    config = Rows(
        gamma=0.99, lam=0.95, norm_adv_by_std_in_grpo=True, gdpo_reward_keys=["acc", "form"], use_pf_ppo=False
    )
    compute = package.get("vendored.algorithms.trainer_functions", "compute_advantage")
    settings = {"gamma": 0.99, "lam": 0.95, "num_repeat": 2, "norm_adv_by_std_in_grpo": True, "config": config}
    return compute(data, adv_estimator=name, **settings).batch["advantages"]
