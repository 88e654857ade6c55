"""Named fixes of log-probabilities."""

from collections.abc import Callable
from unittest import mock

import pytest
import torch

from tests.fixes.support import TRAINING, Case, Vendored
from tests.releases import NEWEST


def _drawn(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of 151 tokens, and a label for each row."""
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(*shape, 151, generator=generator) * 10).to(dtype)
    return logits, torch.randint(0, 151, shape, generator=generator)


def test_a_batch_takes_few_calls(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """And the numbers are the same, bit for bit."""
    logits, labels = _drawn(700)

    def found(package: Vendored) -> tuple[torch.Tensor, int]:
        function = package.get("vendored.utils.torch_functional", "logprobs_from_logits")
        with mock.patch.object(torch, "logsumexp", wraps=torch.logsumexp) as calls:
            return function(logits, labels), calls.call_count

    log_probs, few = found(fixed)
    wanted, many = found(broken)
    assert torch.equal(log_probs, wanted)
    assert (few, many) == (1, 700)


@pytest.mark.usefixtures("_on_a_cpu")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("shape", "first"), [((700,), 0), ((7, 30), 0), ((7, 30), 3)])
def test_values_and_gradients_are_those_of_torch_bit_for_bit(
    vendored: Callable[..., Vendored], shape: tuple[int, ...], first: int, dtype: torch.dtype
) -> None:
    """Of logits with another use, that lie in one piece, and of a part of each row, as some releases cut it out."""
    fixed, broken = (vendored(NEWEST[-1], TRAINING, without) for without in (None, "log-probs-token-by-token"))
    drawn, labels = _drawn(*shape, dtype=dtype)
    labels = labels[..., first:]

    def found(package: Vendored) -> torch.Tensor:
        logits = drawn.clone().requires_grad_()
        function = package.get("vendored.utils.torch_functional", "logprobs_from_logits")
        part = logits[:, first:] if first else logits
        log_probs = function(part, labels)
        weighed = log_probs * torch.arange(float(labels.numel())).view_as(labels).sin()
        (weighed.sum() + part.float().softmax(-1).square().sum()).backward()
        return torch.cat([log_probs.detach().flatten(), logits.grad.flatten()])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixed.module("shims.tensors"), "NUMBERS_AT_ONCE", 1000)
        assert torch.equal(found(fixed), found(broken))


def test_an_entropy_that_is_only_reported_needs_little_memory(case: Case, fixed: Vendored, broken: Vendored) -> None:
    logits = torch.randn(300, 151, generator=torch.Generator().manual_seed(0)).requires_grad_()
    entropy, theirs = (
        package.get("vendored.utils.torch_functional", "entropy_from_logits") for package in (fixed, broken)
    )
    shim = fixed.module("shims.tensors")
    with pytest.MonkeyPatch.context() as patch, shim.having(shim.ENTROPY_IS_REPORTED, True):
        patch.setattr(shim, "NUMBERS_AT_ONCE", 1000)
        reported = entropy(logits)
    assert not reported.requires_grad
    assert torch.equal(reported, theirs(logits))
    assert theirs(logits).requires_grad
    (ours,) = torch.autograd.grad(entropy(logits).sum(), logits)
    (wanted,) = torch.autograd.grad(theirs(logits).sum(), logits)
    assert torch.equal(ours, wanted)
