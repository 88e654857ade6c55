# vextract:template - edit freely
"""PRIME's formulas, against numbers worked out by hand from the paper (https://arxiv.org/abs/2502.01456)."""

import math

import numpy as np
import pytest
import torch

from __package__.training.process_advantages import (
    pairs_in_order,
    placed,
    process_advantages,
    rivals_and_weights,
    row_losses,
    signs_right,
)

# Three responses to one prompt, two to another; the last column of the shorter ones is padding.
UIDS = np.array(["a", "a", "a", "b", "b"])
MASK = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]])
REWARDS = torch.tensor([[0.3, -0.1, 0.4], [0.2, 0.0, 9.0], [-0.5, 9.0, 9.0], [0.1, 0.1, 0.1], [0.6, -0.2, 9.0]])
# Means of their tokens: 0.2, 0.1, -0.5 and 0.1, 0.2. Baselines: (0.1 - 0.5) / 2, (0.2 - 0.5) / 2, (0.2 + 0.1) / 2, and
# 0.2, 0.1.


def test_advantages_are_returns_over_the_mean_of_the_others() -> None:
    given, where = placed(REWARDS, MASK, "token", "none")
    found = process_advantages(given, where, UIDS, 1.0)
    wanted = [
        [0.5 + 0.1 + 0.6, 0.1 + 0.6, 0.6],  # each token's reward less -0.2, summed to the end
        [0.35 + 0.15, 0.15, 0.0],
        [-0.65, 0.0, 0.0],
        [-0.3, -0.2, -0.1],
        [0.5 - 0.3, -0.3, 0.0],
    ]
    assert found.tolist() == pytest.approx(np.array(wanted), abs=1e-6)
    halved = process_advantages(given, where, UIDS, 0.5)
    assert halved[0].tolist() == pytest.approx([0.5 + 0.5 * (0.1 + 0.5 * 0.6), 0.1 + 0.5 * 0.6, 0.6], abs=1e-6)


def test_whole_responses_are_rewarded_on_their_last_token() -> None:
    given, where = placed(REWARDS, MASK, "whole", "none")
    assert where.tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    found = process_advantages(given, where, UIDS, 1.0)
    # Sums 0.6, 0.2, -0.5: less (0.2 - 0.5) / 2, (0.6 - 0.5) / 2, (0.6 + 0.2) / 2; 0.3 and 0.4 less each other.
    of_response = [0.6 + 0.15, 0.2 - 0.05, -0.5 - 0.4, -0.1, 0.1]
    assert found[:, 0].tolist() == pytest.approx(of_response, abs=1e-6)


def test_the_norm_is_the_largest_sum_to_the_end() -> None:
    given, _ = placed(REWARDS, MASK, "token", "batch_norm")
    assert given[0].tolist() == pytest.approx([0.3 / 0.6, -0.1 / 0.6, 0.4 / 0.6], abs=1e-5)  # 0.6 = 0.3 - 0.1 + 0.4


SUMS = torch.tensor([0.6, 0.2, -0.5, 0.3, 0.4])
OUTCOMES = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0])


def test_the_cross_entropy_is_that_of_the_sum() -> None:
    found = row_losses(SUMS, torch.tensor([1.0, 0.0, 0.0, 1.0, 0.25]), torch.zeros(5), cross_entropy=True)
    right = [1 / (1 + math.exp(-value)) for value in (0.6, 0.2, -0.5, 0.3, 0.4)]
    wanted = [-math.log(right[0]), -math.log(1 - right[1]), -math.log(1 - right[2]), -math.log(right[3])]
    wanted.append(-0.25 * math.log(right[4]) - 0.75 * math.log(1 - right[4]))
    assert found.tolist() == pytest.approx(wanted, abs=1e-6)


def test_dpo_compares_with_the_mean_of_the_other_side() -> None:
    rivals, weights = rivals_and_weights(SUMS, OUTCOMES, UIDS, "dpo")
    assert rivals.tolist() == pytest.approx([(0.2 - 0.5) / 2, 0.6, 0.6, 0.0, 0.0])
    assert weights.tolist() == [1.0] * 5
    found = row_losses(SUMS, OUTCOMES, rivals, cross_entropy=False)
    margins = [0.6 + 0.15, 0.6 - 0.2, 0.6 + 0.5, 0.3, 0.4]
    assert found.tolist() == pytest.approx([math.log(1 + math.exp(-margin)) for margin in margins], abs=1e-6)


def test_the_best_of_a_group_weighs_most() -> None:
    _, by_outcome = rivals_and_weights(SUMS, OUTCOMES, UIDS, "bon_acc")
    assert by_outcome.tolist() == pytest.approx([3 * 1.0, 3 * (2 / 3) ** 2, 3 * (2 / 3) ** 2, 2.0, 2.0])
    _, by_reward = rivals_and_weights(SUMS, OUTCOMES, UIDS, "bon_rm")
    assert by_reward.tolist() == pytest.approx([3 * 1.0, 3 * (2 / 3) ** 2, 3 * (1 / 3) ** 2, 2 * 0.5, 2.0])


def test_accuracy_counts_pairs_in_order() -> None:
    # Of a, two pairs differ in outcome, (0, 1) and (0, 2), and both are in order. Those of b are equal: one half.
    assert pairs_in_order(SUMS, OUTCOMES, UIDS) == pytest.approx((1.0 + 0.5) / 2)
    assert pairs_in_order(-SUMS, OUTCOMES, UIDS) == pytest.approx((0.0 + 0.5) / 2)
    assert signs_right(SUMS, OUTCOMES) == pytest.approx(4 / 5)  # all but 0.2, whose outcome is 0
