# vextract:template - edit freely
"""Responses are scored while others are still written: the scores are those of a batch that is scored as a whole."""

import datetime

import pytest
import torch.distributed as dist

from __package__.run.relay import Relay
from __package__.settings import reward_keys
from __package__.tracking.run_tracker import read_rows
from __package__.training import reward_managers
from __package__.training.early_rewards import EarlyRewards

PLAIN = """
def compute_score(solution_str, extra_info=None, **kwargs):
    return {"score": sum(map(ord, solution_str)) % 7 / 7, "length": len(solution_str)}
"""
WAITING = PLAIN.replace("def compute", "import asyncio\n\nasync def compute").replace(
    "    return", "    await asyncio.sleep(0.01)\n    return"
)


@pytest.fixture
def begun(monkeypatch):
    """How many responses were begun with, before the batch was there."""
    seen = []
    begin = EarlyRewards._begin

    def counted(self, row, tokens, columns):
        begin(self, row, tokens, columns)
        seen.append(self.begun[row] is not None)

    monkeypatch.setattr(EarlyRewards, "_begin", counted)
    return seen


@pytest.fixture
def run(train, tmp_path):
    """Trains with a reward function, and returns what it logged, but for how long things took."""

    def made(text, *settings):
        source = tmp_path / f"scores_{abs(hash(text))}.py"
        source.write_text(text)
        directory = train(f"{reward_keys.FUNCTION}.path={source}", "trainer.val_before_train=true", *settings)
        rows = read_rows(directory / "metrics.jsonl")
        return [{name: row[name] for name in row if not name.startswith(("perf", "tim"))} for row in rows]

    return made


def test_the_run_is_the_same(run, begun):
    late = run(WAITING, "local.reward.early=false")
    assert begun == []
    assert run(WAITING) == late
    assert begun and all(begun)


def test_a_plain_function_waits_unless_it_may_run_in_a_thread(run, begun):
    late = run(PLAIN)
    assert begun == []
    assert run(PLAIN, "local.reward.early=true") == late
    assert begun and all(begun)


@pytest.mark.skipif(not hasattr(reward_managers, "LoopAhead"), reason="verl's managers score a whole batch")
def test_verls_managers_begin_as_well(run, begun):
    naive = f"{reward_keys.MANAGER}=naive"
    late = run(PLAIN, naive, "local.reward.early=false")
    assert run(PLAIN, naive) == late
    assert begun and all(begun)


def test_a_response_that_was_another_is_scored_again(answered, tokenizer):
    from __package__.rewards.manager import BEGUN, TextRewardManager

    asked = []

    async def length(solution_str, **kwargs):
        asked.append(solution_str)
        return len(solution_str)

    batch = answered(["37=", "12="], ["48", "2"], ["48", "23"])
    manager = TextRewardManager(tokenizer, 0, length)
    assert manager.begins(in_thread=False)
    begun = [manager.begin(batch[1:2]), manager.begin(batch[1:2])]  # the first is of the second's
    batch.meta_info[BEGUN] = begun
    result = manager(batch, return_dict=True)
    manager.close()
    assert result["reward_extra_info"]["score"] == [2, 1]
    assert sorted(asked) == ["2", "2", "48"]


def test_a_manager_with_a_scorer_of_its_own_waits(tokenizer):
    from __package__.rewards.manager import TextRewardManager

    class Own(TextRewardManager):
        def __init__(self):
            self.scorer, self.weights = (lambda samples: [{"score": 0.0} for _ in samples]), None

    class Bare(TextRewardManager):
        def __init__(self):
            pass

    assert not any(made.begins(in_thread=True) for made in (Own(), Bare()))


def test_a_failure_names_the_sample(train, tmp_path, capsys):
    source = tmp_path / "fails.py"
    source.write_text("async def compute_score(solution_str, **kwargs):\n    raise ValueError('no judge')\n")
    train(f"{reward_keys.FUNCTION}.path={source}", code=1)
    shown = capsys.readouterr().err
    assert "the reward raised ValueError: no judge" in shown and "fails.py:2" in shown and "index=0" in shown


def test_what_other_processes_send_arrives_in_their_order():
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, timeout=datetime.timedelta(seconds=20))
    first, other = (Relay(dist.PrefixStore("relay", store.clone()), rank, 2) for rank in (0, 1))
    for round_ in range(2):
        taken = []
        first.begin(taken.append)
        other.begin(taken.append)
        for number in range(5):
            other.send((round_, number))
        other.end()
        first.end()
        assert taken == [(round_, number) for number in range(5)]
