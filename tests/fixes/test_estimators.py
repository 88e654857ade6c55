"""The named fixes of advantage estimators."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.fixes.support import Case, Part, Vendored

PART = Part(roles=("algorithms", "trainer_functions"))


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
