"""Named fixes of log-probabilities."""

from collections.abc import Callable
from typing import Any
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
        function = package.get("vendored.utils.torch_functional", "logprobs_from_logits_v2")
        with mock.patch.object(torch, "logsumexp", wraps=torch.logsumexp) as calls:
            return function(logits, labels), calls.call_count

    log_probs, few = found(fixed)
    wanted, many = found(broken)
    assert torch.equal(log_probs, wanted)
    assert (few, many) == (1, 700)


@pytest.mark.usefixtures("_on_a_cpu")
@pytest.mark.parametrize("shape", [(700,), (7, 30)])
def test_gradients_are_those_of_torch_bit_for_bit(vendored: Callable[..., Vendored], shape: tuple[int, ...]) -> None:
    """Of logits that lie in one piece, and of a part of each row, as some releases cut it out."""
    fixed, broken = (vendored(NEWEST[-1], TRAINING, without) for without in (None, "log-probs-token-by-token"))
    drawn, labels = _drawn(*shape)
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    def gradient(package: Vendored, first: int) -> torch.Tensor:
        logits = drawn.clone().requires_grad_()
        function = package.get("vendored.utils.torch_functional", "logprobs_from_logits_v2")
        log_probs = function(logits[:, first:], labels[:, first:]) if first else function(logits, labels)
        (log_probs * (weights[:, first:] if first else weights)).sum().backward()
        assert logits.grad is not None
        return logits.grad

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixed.module("shims.tensors"), "NUMBERS_IN_CACHE", 1000)
        for first in (0, 3) if len(shape) > 1 else (0,):
            assert torch.equal(gradient(fixed, first), gradient(broken, first))


@pytest.mark.usefixtures("_on_a_cpu")
def test_half_precision_goes_in_pieces_too(vendored: Callable[..., Vendored]) -> None:
    """Values and gradients are those of one row at a time, bit for bit, and nothing of their size is kept."""
    fixed, broken = (vendored(NEWEST[-1], TRAINING, without) for without in (None, "log-probs-token-by-token"))
    drawn, labels = _drawn(700, dtype=torch.bfloat16)

    def found(package: Vendored) -> tuple[torch.Tensor, Any, int]:
        logits = drawn.clone().requires_grad_()
        function = package.get("vendored.utils.torch_functional", "logprobs_from_logits_v2")
        with torch.profiler.profile() as profile:
            log_probs = function(logits, labels)
        log_probs.float().square().sum().backward()
        calls = sum(event.count for event in profile.key_averages() if "log_softmax" in event.key)
        return log_probs, logits.grad, calls

    (log_probs, gradient, few), (wanted, wanted_gradient, many) = found(fixed), found(broken)
    assert torch.equal(log_probs, wanted)
    assert torch.equal(gradient, wanted_gradient)
    assert few < 10 < many


@pytest.mark.usefixtures("_on_a_cpu")
def test_a_plan_for_a_gpu_has_log_softmax_in_float32(vendored: Callable[..., Vendored]) -> None:
    """As autocast has it on a GPU; and the gradient is that of torch, in the dtype of the logits."""
    shim = vendored(NEWEST[-1], TRAINING, None).module("shims.tensors")
    drawn, labels = _drawn(70, dtype=torch.bfloat16)
    logits, plain = drawn.clone().requires_grad_(), drawn.clone().requires_grad_()
    with shim.having(shim.PLANNED_FOR, "cuda"), torch.autocast("cpu", dtype=torch.bfloat16):
        found = shim.log_probs_of_labels(logits, labels)
    wanted = torch.log_softmax(plain.float(), -1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    assert found.dtype == torch.float32
    assert torch.equal(found, wanted)
    found.square().sum().backward()
    wanted.square().sum().backward()
    assert logits.grad.dtype == torch.bfloat16
    assert torch.equal(logits.grad, plain.grad)


@pytest.mark.usefixtures("_on_a_cpu")
@pytest.mark.parametrize("length", [30, 27])
def test_a_gradient_may_take_the_place_of_logits(vendored: Callable[..., Vendored], length: int) -> None:
    """Of those that lie in one piece; and whoever needs them later is told."""
    fixed = vendored(NEWEST[-1], TRAINING, None)
    shim = fixed.module("shims.tensors")
    function = fixed.get("vendored.utils.torch_functional", "logprobs_from_logits_v2")
    drawn, labels = _drawn(7, 30, dtype=torch.bfloat16)

    def found(gives_up: bool, also: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = drawn.clone().requires_grad_()
        logits = (inputs * 1.0)[:, :length]
        other = logits.square().sum()
        with shim.having(shim.GIVING_UP_LOGITS, gives_up):
            log_probs = function(logits, labels[:, :length])
        loss = log_probs.float().square().sum()
        (loss + other if also else loss).backward()
        assert inputs.grad is not None
        return inputs.grad, logits

    (wanted, kept), (gradient, given) = found(False), found(True)
    assert torch.equal(gradient, wanted)
    assert torch.equal(kept, drawn[:, :length])
    assert torch.equal(given, kept) == (length < 30), "a part of each row stays as it is"
    if length == 30:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            found(True, also=True)


def test_an_entropy_that_is_only_reported_needs_little_memory(case: Case, fixed: Vendored, broken: Vendored) -> None:
    logits = torch.randn(300, 151, generator=torch.Generator().manual_seed(0)).requires_grad_()
    entropy, theirs = (
        package.get("vendored.utils.torch_functional", "entropy_from_logits") for package in (fixed, broken)
    )
    shim = fixed.module("shims.tensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shim, "NUMBERS_IN_CACHE", 1000)
        with shim.having(shim.ENTROPY_IS_REPORTED, True):
            reported = entropy(logits)
    assert not reported.requires_grad
    assert torch.equal(reported, theirs(logits))
    assert theirs(logits).requires_grad
    (ours,) = torch.autograd.grad(entropy(logits).sum(), logits)
    (wanted,) = torch.autograd.grad(theirs(logits).sum(), logits)
    assert torch.equal(ours, wanted)
