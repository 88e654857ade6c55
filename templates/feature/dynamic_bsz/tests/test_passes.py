# vextract:template - edit freely
"""Passes that are formed by tokens: no process gets more than its budget, and all get about as much."""

import pytest
import torch

from __package__.workers.token_passes import partition_tokens, passes_by_tokens

BUDGET = 16_384


def lengths_of(seed, rows, median, spread):
    """Lengths as responses have them: most are short, and some as long as the budget."""
    generator = torch.Generator().manual_seed(seed)
    drawn = (torch.randn(rows, generator=generator) * spread).exp() * median
    return drawn.long().clamp(min=1, max=BUDGET)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_each_row_is_dealt_once_and_shares_are_near_each_other(ranks):
    for seed in range(50):
        lengths = lengths_of(seed, 1 + seed * 3, 300, seed / 25)
        partition = partition_tokens(lengths, ranks)
        assert sorted(row for rows in partition for row in rows) == list(range(len(lengths)))
        shares = [int(lengths[rows].sum()) for rows in partition]
        assert max(shares) <= max(sum(shares) / ranks + int(lengths.max()), 1)
        assert len(partition) == ranks


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(("median", "spread"), [(1500, 1.0), (3000, 0.8), (6000, 0.5), (16_000, 0.1), (50, 0.3)])
def test_no_share_is_over_the_budget_and_ranks_hardly_wait(ranks, median, spread):
    for seed in range(3):
        lengths = lengths_of(seed, 64 * ranks, median, spread)
        passes = passes_by_tokens(lengths, BUDGET, ranks)
        assert sorted(row for shares in passes for rows in shares for row in rows) == list(range(len(lengths)))
        tokens = [[int(lengths[rows].sum()) for rows in shares] for shares in passes]
        assert {len(shares) for shares in tokens} == {ranks}
        assert max(max(shares) for shares in tokens) <= BUDGET
        assert int(lengths.sum()) / sum(max(shares) * ranks for shares in tokens) > 0.97
        fewest = -(-int(lengths.sum()) // (BUDGET * ranks))
        assert len(passes) <= 1 + 1.15 * fewest or median == 16_000  # rows of which no two fit together


def test_a_row_over_the_budget_is_a_share_by_itself():
    passes = passes_by_tokens(torch.tensor([15, 9, 8, 7]), 10, 2)
    assert passes == [[[0], [1]], [[2], [3]]]


def test_fewer_rows_than_processes_leave_some_without():
    assert passes_by_tokens(torch.tensor([3]), 10, 2) == [[[0], []]]
