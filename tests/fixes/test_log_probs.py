"""Named fixes of log-probabilities."""

from __future__ import annotations

from unittest import mock

import torch

from tests.fixes.support import Case, Part, Vendored

PART = Part(roles=("actor",))


def test_a_batch_takes_few_calls(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """And the numbers are the same, bit for bit."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(700, 151, generator=generator) * 10
    labels = torch.randint(0, 151, (700,), generator=generator)

    def found(package: Vendored) -> tuple[torch.Tensor, int]:
        function = package.get("vendored.utils.torch_functional", "logprobs_from_logits_v2")
        with mock.patch.object(torch, "logsumexp", wraps=torch.logsumexp) as calls:
            return function(logits, labels), calls.call_count

    log_probs, few = found(fixed)
    wanted, many = found(broken)
    assert torch.equal(log_probs, wanted)
    assert (few, many) == (1, 700)
