"""Named fixes of what took the rows of a batch one by one."""

import pytest
import torch

from tests.fixes.support import Case, Rows, Vendored, calls_of, tiny_model
from tests.fixes.workers import engine_outputs

pytestmark = pytest.mark.filterwarnings("ignore:In CPU autocast")


@pytest.mark.usefixtures("process_group")
def test_rows_are_joined_at_once(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """The same values and gradients, bit for bit."""

    def found(package: Vendored) -> tuple[torch.Tensor, int]:
        model = tiny_model("Qwen2ForTokenClassification")

        def values() -> torch.Tensor:
            return engine_outputs(package, "FSDPEngineWithValueHead", model, "float32", remove_padding=False)["values"]

        return calls_of("unbind", values)

    (values, few), (wanted, many) = found(fixed), found(broken)
    assert torch.equal(values, wanted)
    assert few < many

    rows = fixed.get("shims.tensors", "joined_rows")
    gradients = []
    for joined in (rows, lambda nested: torch.cat(list(nested.unbind()))):
        dense = torch.arange(24.0).reshape(2, 4, 3).requires_grad_()
        starts, lengths = torch.tensor([0, 0]), torch.tensor([3, 2])
        flat = joined(torch.nested.narrow(dense, 1, starts, lengths, layout=torch.jagged))
        (flat * torch.arange(15.0).reshape(5, 3).sin()).sum().backward()
        gradients.append(torch.cat([flat.detach().flatten(), dense.grad.flatten()]))
    assert torch.equal(*gradients)


def test_rows_are_cut_at_once(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """The same values and gradients, bit for bit, and no call for each row."""
    mask = torch.tensor([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1], [1, 1, 0, 0, 0]])

    def found(package: Vendored, *shape: int) -> tuple[torch.Tensor, int]:
        batch = Rows(prompts=torch.ones(3, 2), responses=torch.ones(3, 3), attention_mask=mask)
        function = package.get("vendored.workers.utils.padding", "no_padding_2_padding")
        values = torch.randn(int(mask.sum()), *shape, generator=torch.Generator().manual_seed(3)).requires_grad_()
        rows, calls = calls_of("__index__", lambda: function(values, batch))
        (rows * torch.arange(float(rows.numel())).view_as(rows).sin()).sum().backward()
        return torch.cat([rows.detach().flatten(), values.grad.flatten()]), calls

    for shape in ((), (4,)):
        (values, few), (wanted, many) = found(fixed, *shape), found(broken, *shape)
        assert torch.equal(values, wanted)
        assert few == 0 < many


def test_positions_are_taken_at_once(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """With one number for a token, and with four."""
    mask = torch.tensor([[0, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0]])

    def found(package: Vendored, positions: torch.Tensor) -> tuple[torch.Tensor, int]:
        batch = package.get("vendored.utils.tensordict_utils", "get_tensordict")(
            {"input_ids": mask * 7, "attention_mask": mask, "response_mask": mask[:, 2:], "position_ids": positions}, {}
        )
        function = package.get("vendored.workers.utils.padding", "left_right_2_no_padding")
        unpadded, calls = calls_of("bool", lambda: function(batch))
        return unpadded["position_ids"], calls

    width = torch.arange(5).expand(3, 5)
    for positions in (width, torch.stack([width, width + 1, width * 2, -width], dim=1)):
        (taken, few), (wanted, many) = found(fixed, positions), found(broken, positions)
        assert taken.shape[:-1] == wanted.shape[:-1]
        assert torch.equal(taken.values(), wanted.values())
        assert torch.equal(taken.offsets(), wanted.offsets())
        assert few < many


def test_batches_are_divided_at_once(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """Rows of tokens, and of several position ids for each token."""
    lengths = [3, 1, 2, 4]
    rows = [torch.arange(float(length)) + 10 * length for length in lengths]
    positions = [torch.stack([row, -row]) for row in rows]

    def found(package: Vendored) -> tuple[list[list[torch.Tensor]], int]:
        utils = package.module("vendored.utils.tensordict_utils")
        nested = utils.nested_tensor_from_tensor_list
        batch = utils.get_tensordict(
            {"input_ids": nested(rows), "position_ids": nested(positions, ragged_idx=2), "mask": torch.eye(4)},
            {"temperature": 0.9},
        )
        chunk = package.get("vendored.workers.engine.utils", "tu").chunk_tensordict
        parts, calls = calls_of("unbind", lambda: chunk(batch, 2))
        assert [part["temperature"] for part in parts] == [0.9, 0.9]
        seen = []
        for part in parts:
            assert part["input_ids"].is_nested
            flat = [part[name].values() for name in ("input_ids", "position_ids")]
            seen.append([*flat, part["input_ids"].offsets(), part["position_ids"].offsets(), part["mask"]])
        return seen, calls

    (parts, few), (wanted, many) = found(fixed), found(broken)
    for part, right in zip(parts, wanted, strict=True):
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(part, right, strict=True))
    assert few == 0 < many
