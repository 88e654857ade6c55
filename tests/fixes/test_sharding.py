"""Named fixes of how processes share a model out."""

from typing import Any

import pytest
import torch

from tests.fixes.support import Case, Vendored, tiny_model

MODULE = "vendored.utils.fsdp_utils"


def loaded(package: Vendored) -> Any:
    """A model that is shared out, with the weights that one process had."""
    from torch.distributed.device_mesh import init_device_mesh

    module, weights = tiny_model(), tiny_model().state_dict()
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",))
    wrap = {"wrap_policy": {"transformer_layer_cls_to_wrap": ["Qwen2DecoderLayer"]}}
    package.get(MODULE, "apply_fsdp2")(module, {"mesh": mesh}, wrap)
    package.get(MODULE, "fsdp2_load_full_state_dict")(module, weights, mesh, None)
    return module


@pytest.mark.usefixtures("process_group")
def test_weights_are_shared_out_on_a_cpu(case: Case, fixed: Vendored, broken: Vendored) -> None:
    module = loaded(fixed)
    for name, value in tiny_model().state_dict().items():
        assert torch.equal(module.state_dict()[name].full_tensor(), value), name
    sum(parameter.sum() for parameter in module.parameters()).backward()
    whole = [parameter.grad.full_tensor() for parameter in module.parameters()]
    norm = torch.cat([gradient.flatten() for gradient in whole]).norm()
    found = fixed.get(MODULE, "fsdp2_clip_grad_norm_")(module.parameters(), max_norm=1.0)
    torch.testing.assert_close(found.full_tensor(), norm)
    with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
        loaded(broken)
