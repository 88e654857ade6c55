"""Named fixes of the critic."""

import pytest
import torch

from tests.fixes.support import Case, Vendored
from tests.fixes.workers import critic_values, plain_values

pytestmark = pytest.mark.filterwarnings("ignore:In CPU autocast")


@pytest.mark.usefixtures("process_group")
def test_values_follow_the_configured_dtype(case: Case, fixed: Vendored, broken: Vendored) -> None:
    wanted = plain_values()
    torch.testing.assert_close(critic_values(fixed, "float32"), wanted, rtol=0, atol=1e-5)
    low = critic_values(fixed, "bfloat16")
    assert (low - wanted).abs().max() > 1e-3
    assert torch.equal(critic_values(broken, "float32"), low)
