# vextract:template - edit freely
"""The formulas of PRIME (https://arxiv.org/abs/2502.01456): losses of the implicit reward, and advantages by it.

Upstream's recipe (verl-recipe, prime/prime_core_algos.py) differs in two places, where the paper's are taken here: it
multiplies each token's distance from its response's mean by n / (n - 1), and it gives the last token no reward.
"""

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

LOSSES = ("ce", "dpo", "bon_acc", "bon_rm")


def row_losses(sums: torch.Tensor, outcomes: torch.Tensor, rivals: torch.Tensor, cross_entropy: bool) -> torch.Tensor:
    """Return the loss of each response, (bs,).

    Args:
        sums: the reward of each whole response, beta * log(pi_phi / pi_ref), (bs,).
        outcomes: from 0 to 1, (bs,).
        rivals: what the sums are compared with by dpo, (bs,).
        cross_entropy: -o log(sigmoid(sum)) - (1 - o) log(1 - sigmoid(sum)), the paper's equation 4; otherwise
            -log(sigmoid(sum - rival)), of a response with outcome 0 with the other sign (upstream's detached dpo).
    """
    if cross_entropy:
        return binary_cross_entropy_with_logits(sums, outcomes, reduction="none")
    return -logsigmoid((sums - rivals) * torch.where(outcomes > 0, 1.0, -1.0))


def rivals_and_weights(
    sums: torch.Tensor, outcomes: torch.Tensor, uids: np.ndarray, loss_type: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute from the rewards before an update what `dpo`, `bon_acc` and `bon_rm` compare and weigh responses by.

    Args:
        sums: the reward of each whole response, (bs,).
        outcomes: (bs,).
        uids: which prompt each response answers, (bs,).
        loss_type: one of `LOSSES`.

    Returns:
        The mean sum of the responses to the same prompt that are worse (better, if its own outcome is 0), 0 if there
        are none; and the weight, n * (share of the group that is no better)^(n - 1): of the best of n. Both (bs,).
    """
    rivals, weights = torch.zeros_like(sums), torch.ones_like(sums)
    for rows in groups_of(uids):
        group, worth = sums[rows], outcomes[rows]
        ranked = {"bon_acc": worth, "bon_rm": group}.get(loss_type)
        for place, row in enumerate(rows):
            others = group[worth < worth[place]] if worth[place] > 0 else group[worth > worth[place]]
            if len(others):
                rivals[row] = others.mean()
            if ranked is not None:
                share = (ranked <= ranked[place]).to(sums.dtype).mean()
                weights[row] = len(rows) * share ** (len(rows) - 1)
    return rivals, weights


def placed(rewards: torch.Tensor, mask: torch.Tensor, granularity: str, norm: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Put rewards where they are given, in the measure in which they are.

    Args:
        rewards: of each token, (bs, response_length).
        mask: 1 on the tokens that the policy wrote, (bs, response_length).
        granularity: token: each on its token; whole: their sum on the last one.
        norm: batch_norm: divided by the largest sum of rewards from any token to the end; none: as they are.

    Returns:
        The rewards, and 1 where there is one, both (bs, response_length).
    """
    given, where = rewards * mask, mask.to(rewards.dtype)
    if granularity == "whole":
        last = mask.shape[1] - 1 - mask.flip(1).argmax(dim=1, keepdim=True)
        where = torch.zeros_like(where).scatter(1, last, 1.0) * where
        given = given.sum(dim=1, keepdim=True) * where
    if norm == "batch_norm":
        given = given / (_to_the_end(given, 1.0).abs().max() + 1e-6)
    return given, where


def process_advantages(rewards: torch.Tensor, where: torch.Tensor, uids: np.ndarray, gamma: float) -> torch.Tensor:
    """Compute the paper's equation 5 without its outcomes: returns of rewards over a leave-one-out baseline.

    The baseline of a response is the mean, over the other responses to its prompt, of the mean of their rewards; it is
    subtracted from each of its rewards.

    Args:
        rewards, where: as `placed` gives them, (bs, response_length).
        uids: which prompt each response answers, (bs,).
        gamma: the discount of later rewards.

    Returns:
        The discounted sum from each column to the end of the response, (bs, response_length).
    """
    means = rewards.sum(dim=1) / where.sum(dim=1).clamp(min=1)
    baselines = torch.zeros_like(means)
    for rows in groups_of(uids):
        if len(rows) > 1:
            baselines[rows] = (means[rows].sum() - means[rows]) / (len(rows) - 1)
    return _to_the_end((rewards - baselines[:, None]) * where, gamma)


def pairs_in_order(sums: torch.Tensor, outcomes: torch.Tensor, uids: np.ndarray) -> float:
    """Return how many pairs of responses to a prompt have rewards in the order of their outcomes: `dpo_acc`.

    Pairs count by the distance of their outcomes; a prompt whose outcomes are all the same counts as 0.5.

    Args:
        sums, outcomes, uids: (bs,).
    """
    shares = []
    for rows in groups_of(uids):
        first, second = np.triu_indices(len(rows), k=1)
        better = outcomes[rows][first] - outcomes[rows][second]
        higher = sums[rows][first] - sums[rows][second]
        weight = better.abs()
        in_order = ((higher > 0) == (better > 0)).to(sums.dtype) * weight
        shares.append(float(in_order.sum() / weight.sum()) if weight.sum() > 0 else 0.5)
    return float(np.mean(shares))


def signs_right(sums: torch.Tensor, outcomes: torch.Tensor) -> float:
    """Return the share of responses whose reward is above 0 as their outcome is above 0.5: `dpo_acc_abs`."""
    return float((torch.sign(sums) == torch.sign(outcomes * 2 - 1)).to(torch.float32).mean())


def groups_of(uids: np.ndarray) -> list[list[int]]:
    """Return the rows of each prompt, in the order in which prompts come."""
    groups: dict[object, list[int]] = {}
    for row, uid in enumerate(uids):
        groups.setdefault(uid, []).append(row)
    return list(groups.values())


def _to_the_end(values: torch.Tensor, gamma: float) -> torch.Tensor:
    """Return the discounted sum of the values from each column to the last, (bs, columns)."""
    sums, running = torch.empty_like(values), torch.zeros_like(values[:, 0])
    for column in reversed(range(values.shape[1])):
        running = values[:, column] + gamma * running
        sums[:, column] = running
    return sums
