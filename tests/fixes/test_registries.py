"""The named fix of a release that has no registries of algorithms."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixes.support import TRAINING, Case, Vendored
from tests.project.running import check_forked

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


@pytest.mark.parametrize("first", ["vendored.algorithms.core_algos", "registries"])
def test_what_a_forks_core_algos_registers_itself_waits_for_the_registries(
    vendored: Callable[..., Vendored], tmp_path: Path, first: str
) -> None:
    made = vendored("0.4.0", TRAINING)
    there = made.module("vendored.algorithms.core_algos").__file__
    assert there is not None
    shutil.copytree(Path(there).parents[2], tmp_path / made.package)
    file = tmp_path / made.package / "vendored" / "algorithms" / "core_algos.py"
    own = "".join(
        f"\n\n@register_{kind}({name!r})\ndef own_{name}(): ...\n"
        for kind, name in (("adv_est", "mine"), ("adv_est", "grpo"), ("policy_loss", "other"))
    )
    file.write_text(file.read_text() + own)
    code = (
        f"import {made.package}.{first}\nfrom {made.package} import registries\n"
        f"from {made.package}.vendored.algorithms import core_algos\n"
        "assert registries.get_adv_estimator_fn('mine') is core_algos.own_mine\n"
        "assert registries.get_adv_estimator_fn('grpo') is not core_algos.own_grpo\n"
        "assert registries.get_policy_loss_fn('other') is core_algos.own_other\n"
    )
    check_forked(tmp_path, "-c", code)
