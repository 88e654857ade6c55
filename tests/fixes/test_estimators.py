"""The named fixes of advantage estimators."""

import numpy as np
import pytest
import torch

from tests.fixes.support import Case, Vendored, calls_of


def test_groups_are_compared_on_the_device_of_the_scores(
    case: Case, fixed: Vendored, broken: Vendored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # upstream's function asks for it, and takes the CPU
    core = fixed.module("vendored.algorithms.core_algos")
    mask = torch.ones(4, 3)
    given = torch.tensor([[0.0, 0, 1], [0, 0, 0], [0, 1, 2], [0, 0, 5]]), mask, np.array([*"aabb"], dtype=object)
    wanted, _ = core.compute_grpo_outcome_advantage(*given)
    torch.testing.assert_close(core.compute_grpo_vectorized_outcome_advantage(*given)[0], wanted)
    with pytest.raises(TypeError):
        broken.module("vendored.algorithms.core_algos").compute_grpo_vectorized_outcome_advantage(*given)


@pytest.mark.parametrize(("by_std", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_groups_are_compared_by_columns(
    case: Case, fixed: Vendored, broken: Vendored, by_std: bool, dtype: torch.dtype
) -> None:
    """The same advantages, bit for bit, a group of one among them, and no call for each row."""
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(64, 3, generator=generator).to(dtype)
    mask = (torch.rand(64, 3, generator=generator) > 0.3).long()
    index = np.array(["alone", *(f"group {row % 7}" for row in range(63))], dtype=object)

    def found(package: Vendored) -> tuple[torch.Tensor, int]:
        estimator = package.get("vendored.algorithms.core_algos", "compute_grpo_outcome_advantage")
        return calls_of("__setitem__", lambda: estimator(rewards, mask, index, norm_adv_by_std_in_grpo=by_std)[0])

    (advantages, few), (wanted, many) = found(fixed), found(broken)
    assert torch.equal(advantages, wanted)
    assert advantages.dtype == wanted.dtype
    assert (few, many) == (0, 64)
