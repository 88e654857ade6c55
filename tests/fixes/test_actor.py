"""Named fixes of the actor."""

import pytest
import torch

from tests.fixes.support import Case, Vendored
from tests.fixes.workers import actor_log_probs, plain_log_probs

pytestmark = pytest.mark.filterwarnings("ignore:In CPU autocast")


@pytest.mark.usefixtures("process_group")
def test_log_probs_follow_the_configured_dtype(case: Case, fixed: Vendored, broken: Vendored) -> None:
    wanted = plain_log_probs()
    torch.testing.assert_close(actor_log_probs(fixed, "float32"), wanted, rtol=0, atol=1e-5)
    low = actor_log_probs(fixed, "bfloat16")
    assert (low - wanted).abs().max() > 1e-3
    assert torch.equal(actor_log_probs(broken, "float32"), low)
