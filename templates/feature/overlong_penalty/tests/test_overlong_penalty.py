# vextract:template - edit freely
"""The penalty on responses that are nearly as long as they may be."""

import pytest

from __package__.settings import reward_keys
from __package__.tracking.run_tracker import read_rows


@pytest.fixture
def by_length(tmp_path):
    """The option for a reward of its own: the length of the text."""
    source = tmp_path / "by_length.py"
    source.write_text("def compute_score(solution_str, **kwargs):\n    return float(len(solution_str))\n")
    return f"{reward_keys.FUNCTION}.path={source}"


def test_long_responses_cost(train, by_length):
    section = reward_keys.OVERLONG
    penalty = f"{section}.enable=true", f"{section}.len=2", f"{section}.log=true"
    row = read_rows(train(by_length, *penalty) / "metrics.jsonl")[-1]
    assert row["reward/overlong_reward/mean"] < 0
    assert row["critic/score/mean"] == pytest.approx(row["reward/score/mean"] + row["reward/overlong_reward/mean"])
