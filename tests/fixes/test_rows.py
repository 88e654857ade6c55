"""Named fixes of what took the rows of a batch one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

from tests.fixes.support import Case, Part, Vendored, tiny_model
from tests.fixes.workers import engine_outputs

PART = Part(roles=("actor", "critic", "protocol"), features=("critic", "remove_padding"))
pytestmark = pytest.mark.filterwarnings("ignore:In CPU autocast")


def _calls_of(name: str, function: Callable[[], Any]) -> tuple[Any, int]:
    """What a function gives, and how often it called this method of tensors."""
    original = getattr(torch.Tensor, name)
    calls = []

    def counted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return original(tensor, *args, **kwargs)

    with mock.patch.object(torch.Tensor, name, counted):
        return function(), len(calls)


@pytest.mark.usefixtures("process_group")
def test_rows_are_joined_at_once(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """The same values and gradients, bit for bit."""

    def found(package: Vendored) -> tuple[torch.Tensor, int]:
        model = tiny_model("Qwen2ForTokenClassification")

        def values() -> torch.Tensor:
            return engine_outputs(package, "FSDPEngineWithValueHead", model, "float32", remove_padding=False)["values"]

        return _calls_of("unbind", values)

    (values, few), (wanted, many) = found(fixed), found(broken)
    assert torch.equal(values, wanted)
    assert few < many

    rows = fixed.get("shims.nested_rows", "joined_rows")
    gradients = []
    for joined in (rows, lambda nested: torch.cat(list(nested.unbind()))):
        dense = torch.arange(24.0).reshape(2, 4, 3).requires_grad_()
        starts, lengths = torch.tensor([0, 0]), torch.tensor([3, 2])
        flat = joined(torch.nested.narrow(dense, 1, starts, lengths, layout=torch.jagged))
        (flat * torch.arange(15.0).reshape(5, 3).sin()).sum().backward()
        gradients.append(torch.cat([flat.detach().flatten(), dense.grad.flatten()]))
    assert torch.equal(*gradients)


def test_rows_are_cut_by_numbers(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """Indices that are tensors cost a call, and on a GPU a wait, each."""
    lengths = torch.tensor([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]])

    def found(package: Vendored) -> tuple[torch.Tensor, int]:
        data = {"prompts": torch.ones(2, 2), "responses": torch.ones(2, 3), "attention_mask": lengths}
        function = package.get("workers.utils.padding", "no_padding_2_padding")
        return _calls_of("__index__", lambda: function(torch.arange(8.0), _Batch(data)))

    (values, few), (wanted, many) = found(fixed), found(broken)
    assert torch.equal(values, wanted)
    assert few == 0 < many


class _Batch(dict[str, Any]):
    """As much of a TensorDict as is read."""
