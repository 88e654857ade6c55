"""Named fixes of the actor, the critic and the engine, and of how processes share a model out."""

import sys
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

from tests.fixes.support import Case, Vendored, tiny_model
from tests.fixes.workers import actor_log_probs, critic_values, plain_log_probs, plain_values

pytestmark = [pytest.mark.usefixtures("process_group"), pytest.mark.filterwarnings("ignore:In CPU autocast")]
SHARDING = "vendored.utils.fsdp_utils"


def check_dtype(values: Any, plain: torch.Tensor, fixed: Vendored, broken: Vendored) -> None:
    """Check that a worker computes in the dtype that it is configured with."""
    torch.testing.assert_close(values(fixed, "float32"), plain, rtol=0, atol=1e-5)
    low = values(fixed, "bfloat16")
    assert (low - plain).abs().max() > 1e-3
    assert torch.equal(values(broken, "float32"), low)


def test_log_probs_follow_the_configured_dtype(case: Case, fixed: Vendored, broken: Vendored) -> None:
    check_dtype(actor_log_probs, plain_log_probs(), fixed, broken)


def test_values_follow_the_configured_dtype(case: Case, fixed: Vendored, broken: Vendored) -> None:
    check_dtype(critic_values, plain_values(), fixed, broken)


@pytest.fixture
def _no_flash_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flash_attn", None)


@pytest.mark.usefixtures("_no_flash_attention")
def test_log_probs_equal_with_and_without_padding(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """The values of the critic, where the fix is the critic's."""
    if not case.fix.module.endswith("dp_critic"):
        found = actor_log_probs(fixed, "float32", remove_padding=True)
        torch.testing.assert_close(found, plain_log_probs(), rtol=0, atol=1e-5)
        with pytest.raises((NameError, ImportError)):  # by release
            actor_log_probs(broken, "float32", remove_padding=True)
    if not case.fix.module.endswith("dp_actor"):
        found = critic_values(fixed, "float32", remove_padding=True)
        torch.testing.assert_close(found, plain_values(), rtol=0, atol=1e-5)
        with pytest.raises((NameError, ImportError)):  # by release
            critic_values(broken, "float32", remove_padding=True)


def loaded(package: Vendored) -> Any:
    """A model that is shared out, with the weights that one process had."""
    module, weights = tiny_model(), tiny_model().state_dict()
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",))
    wrap = {"wrap_policy": {"transformer_layer_cls_to_wrap": ["Qwen2DecoderLayer"]}}
    package.get(SHARDING, "apply_fsdp2")(module, {"mesh": mesh}, wrap)
    package.get(SHARDING, "fsdp2_load_full_state_dict")(module, weights, mesh, None)
    return module


def test_weights_are_shared_out_on_a_cpu(case: Case, fixed: Vendored, broken: Vendored) -> None:
    module = loaded(fixed)
    for name, value in tiny_model().state_dict().items():
        assert torch.equal(module.state_dict()[name].full_tensor(), value), name
    sum(parameter.sum() for parameter in module.parameters()).backward()
    whole = [parameter.grad.full_tensor() for parameter in module.parameters()]
    norm = torch.cat([gradient.flatten() for gradient in whole]).norm()
    found = fixed.get(SHARDING, "fsdp2_clip_grad_norm_")(module.parameters(), max_norm=1.0)
    torch.testing.assert_close(found.full_tensor(), norm)
    with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
        loaded(broken)
