# vextract:template - edit freely
"""Managers that score one response each time are called as those that score a batch."""

import contextlib
from pathlib import Path

import pytest
import torch

from __package__ import custom  # noqa: F401  (registers the hooks)
from __package__.rewards.scoring import ScoringError
from __package__.settings.loading import load_config
from __package__.training.reward_loop import RewardLoop
from __package__.training.reward_managers import load_manager

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


def test_each_response_is_scored(manager, batch):
    found = manager("later")
    assert isinstance(found, RewardLoop)
    result = found(batch, return_dict=True)
    assert result["reward_tensor"].tolist() == [[0, 0, 2, 0], [0, 0, 2, 0], [0, 1, 0, 0]]
    assert result["reward_extra_info"]["right"] == [True, False, False]
    assert torch.equal(found(batch), result["reward_tensor"])


def test_a_function_that_fails_is_named_with_the_sample(manager, batch):
    with pytest.raises(ScoringError, match=r"ZeroDivisionError.*sample 1, .*scores\.py:6"):
        manager("failing")(batch)
