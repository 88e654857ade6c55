"""The named fix of a release that has no registries of algorithms."""

import pytest

from tests.fixes.support import Case, Vendored

NAMES = ("get_adv_estimator_fn", "get_policy_loss_fn", "register_adv_est", "register_policy_loss")


def test_hooks_of_later_releases_can_register(case: Case, fixed: Vendored, broken: Vendored) -> None:
    core = fixed.module("vendored.algorithms.core_algos")

    @core.register_adv_est("mine")
    def estimator() -> None: ...

    @core.register_policy_loss("mine")
    def loss() -> None: ...

    assert core.get_adv_estimator_fn("mine") is estimator
    assert core.get_policy_loss_fn("mine") is loss
    registries = fixed.module("registries")
    assert registries.ADV_ESTIMATOR_REGISTRY["mine"] is estimator
    assert sorted(registries.POLICY_LOSS_REGISTRY) == ["vanilla"], "the actor would not call another one"
    for taken in ("mine", "grpo"):
        with pytest.raises(ValueError, match="registered already"):
            core.register_adv_est(taken)(lambda: None)
    assert [name for name in NAMES if hasattr(broken.module("vendored.algorithms.core_algos"), name)] == []
