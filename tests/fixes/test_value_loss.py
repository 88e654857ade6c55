"""Named fix of what the critic learns from: a batch, however many passes it is divided into."""

from types import SimpleNamespace

import pytest
import torch

from tests.fixes.support import Case, Rows, Vendored

ROWS, LENGTH = 6, 5


def test_the_gradient_does_not_depend_on_the_passes(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """Passes of unequal numbers of tokens give the gradient of all rows at once; so does each way of averaging."""
    for mode in ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"):
        whole, loss = _gradient(fixed, mode, [[0, 1, 2, 3, 4, 5]])
        assert torch.equal(whole, _gradient(broken, mode, [[0, 1, 2, 3, 4, 5]])[0])
        parts, sum_of_parts = _gradient(fixed, mode, [[0], [1, 2], [3, 4, 5]])
        torch.testing.assert_close(parts, whole)
        assert sum_of_parts == pytest.approx(loss)
        assert not torch.allclose(_gradient(broken, mode, [[0], [1, 2], [3, 4, 5]])[0], whole, rtol=0.1)


def _gradient(package: Vendored, mode: str, passes: list[list[int]]) -> tuple[torch.Tensor, float]:
    """What the passes of a batch leave at the values, and the loss that is reported."""
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randn(3, ROWS, LENGTH, generator=generator)
    mask = torch.arange(LENGTH) < torch.tensor([5, 1, 2, 4, 3, 5]).unsqueeze(1)
    predicted = drawn[0].clone().requires_grad_()
    losses = package.module("vendored.algorithms.losses")
    config = SimpleNamespace(cliprange_value=0.3, loss_agg_mode=mode)
    reported = 0.0
    for rows in passes:
        batch = Rows(values=drawn[1][rows], returns=drawn[2][rows], response_mask=mask[rows])
        batch.update(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=ROWS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(losses, "no_padding_2_padding", lambda values, data: values)
            loss, metrics = losses.value_loss(config, {"values": predicted[rows]}, batch)
        loss.backward()
        found = metrics["critic/vf_loss"]
        reported += sum(found.values) if hasattr(found, "values") else found
    assert predicted.grad is not None
    return predicted.grad, float(reported)
