# vextract:template recipe/toy/tests/test_rewarding.py - edit freely
"""From the config to rewards: the overlong penalty, arguments of a manager."""

import pytest

from generated_example.settings import reward_keys
from generated_example.tracking.run_tracker import read_rows


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


def test_an_argument_that_the_manager_does_not_take_is_an_error_with_those_it_does(train, capsys):
    train("+" + reward_keys.MANAGER_ARGUMENTS + ".wieghts={acc:1.0}", code=2)
    shown = capsys.readouterr().err
    assert "wieghts" in shown and f"hint: {reward_keys.MANAGER_ARGUMENTS} can set" in shown
