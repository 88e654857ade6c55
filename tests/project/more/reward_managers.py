"""Managers that score one response each time, further than a project's own tests go."""

import contextlib
from pathlib import Path

import pytest
import torch
from toy import custom  # noqa: F401  (registers the hooks)
from toy.settings import reward_keys
from toy.settings.loading import load_config
from toy.training.reward_managers import load_manager

pytestmark = pytest.mark.skipif(
    not reward_keys.FUNCTION.startswith("reward."), reason="managers of this release score a batch"
)
SCORES = """
async def later(solution_str, ground_truth, **kwargs):
    return {"score": float(len(solution_str)), "right": solution_str == ground_truth}

def failing(solution_str, **kwargs):
    return 1.0 / (solution_str != "23")
"""


@pytest.fixture
def batch(answered):
    return answered(["37=", "12=", "00="], ["48", "23", "1"], ["48", "24", "11"])


@pytest.fixture
def manager(tokenizer, tmp_path):
    """Makes managers that score by a function of SCORES."""
    (tmp_path / "scores.py").write_text(SCORES)
    with contextlib.ExitStack() as made:

        def make(function, *more, name="naive"):
            section = "reward.custom_reward_function"
            options = f"{section}.path={tmp_path / 'scores.py'}", f"{section}.name={function}"
            options = *options, f"reward.reward_manager.name={name}", *more
            config = load_config(Path(__file__).parents[1] / "config", options)
            found = load_manager(config, tokenizer, 0, {})
            made.callback(getattr(found, "close", lambda: None))
            return found

        yield make


def test_the_data_source_may_stand_in_another_column(manager, batch):
    columns = batch.non_tensor_batch
    columns["kind"] = columns.pop("data_source")
    right = manager("later", "data.reward_fn_key=kind")(batch, return_dict=True)["reward_extra_info"]["right"]
    assert right == [True, False, False]


def test_scores_that_are_given_are_the_reward(manager, batch):
    batch.batch["rm_scores"] = torch.full((3, 4), 0.25)
    assert torch.equal(manager("later")(batch), batch.batch["rm_scores"])
