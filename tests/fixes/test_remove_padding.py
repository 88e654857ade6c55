"""Named fixes for training without padding tokens where flash-attn is not installed."""

import sys
from collections.abc import Iterator

import pytest
import torch

from tests.fixes.support import Case, Vendored
from tests.fixes.workers import actor_log_probs, critic_values, plain_log_probs, plain_values

pytestmark = pytest.mark.filterwarnings("ignore:In CPU autocast")


@pytest.fixture(scope="module", autouse=True)
def _no_flash_attention() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "flash_attn", None)
        yield


@pytest.mark.usefixtures("process_group")
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
