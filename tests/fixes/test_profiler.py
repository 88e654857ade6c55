"""Named fixes of the profiler."""

import pytest
import torch

from tests.fixes.support import Case, Part, Vendored

pytestmark = pytest.mark.usefixtures("verl")

PART = Part(roles=("actor",), features=("profiler",))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the fix is for machines without a GPU")
def test_memory_is_reported_on_a_cpu(case: Case, fixed: Vendored, broken: Vendored) -> None:
    wanted = ("0.00", "0.00", "0.00", "0.00")
    module = case.fix.module.replace("verl.", "vendored.", 1)
    assert fixed.get(module, "_get_current_mem_info")() == wanted
    with pytest.raises(AttributeError):
        broken.get(module, "_get_current_mem_info")()
