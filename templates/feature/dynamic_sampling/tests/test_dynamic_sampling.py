# vextract:template - edit freely
"""Groups of equal rewards are left out, and others drawn until there are enough."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from __package__.errors import ConfigError
from __package__.training.batches import group_metrics
from __package__.training.dynamic_sampling import sample_until_full, varying_groups
from __package__.vendored.protocol import DataProto


def scored(uids, rewards):
    """A batch with one reward per row, on its last token, and the same as a component."""
    batch = DataProto.from_single_dict(
        {"responses": torch.arange(len(uids))[:, None], "uid": np.array(list(uids), dtype=object)}
    )
    return batch, torch.tensor([[0.0, reward] for reward in rewards]), {"acc": list(rewards), "text": list(uids)}


def config(metric="seq_reward", most=3):
    section = {"enable": True, "metric": metric, "max_num_gen_batches": most}
    return OmegaConf.create({"algorithm": {"filter_groups": section}})


def test_groups_vary_if_two_rewards_differ():
    uids = np.array(["a", "a", "b", "b", "c"], dtype=object)
    assert varying_groups(uids, np.array([1.0, 0.0, 1.0, 1.0, 0.0])) == ["a", "c"]


def test_the_share_of_prompts_that_teach_nothing():
    batch, rewards, _ = scored("abcabcd", [1, 0, 1, 1, 1, 1, 0])
    uids = batch.non_tensor_batch["uid"]
    assert group_metrics(uids, rewards) == {"critic/rewards/frac_zero_std": 1 - 2 / 4}  # a and c; d has no other
    assert group_metrics(uids[:3], rewards[:3]) == {}


@pytest.mark.parametrize("metric", ["seq_reward", "acc"])
def test_batches_are_drawn_until_there_are_enough_groups(metric):
    draws = iter([scored("aabb", [1, 0, 1, 1]), scored("ccdd", [0, 0, 0, 0]), scored("eeff", [0, 1, 1, 0])])
    metrics = {}
    batch, rewards, extra = sample_until_full(lambda: next(draws), config(metric), 2, metrics)
    assert batch.non_tensor_batch["uid"].tolist() == ["a", "a", "e", "e"]
    assert rewards.sum(dim=-1).tolist() == [1, 0, 0, 1]
    assert extra == {"acc": [1, 0, 0, 1], "text": ["a", "a", "e", "e"]}
    assert metrics == {"train/num_gen_batches": 3, "train/kept_groups": 3 / 6}


def test_giving_up_says_what_to_change():
    with pytest.raises(ConfigError, match=r"2 batches[\s\S]*hint: [\s\S]*max_num_gen_batches"):
        sample_until_full(lambda: scored("aa", [1, 1]), config(most=2), 1, {})


def test_without_a_limit_all_the_data_are_drawn_and_no_more():
    draws = iter([scored("aa", [1, 1]), scored("bb", [0, 0])])
    with pytest.raises(ConfigError, match="2 batches"):
        sample_until_full(lambda: next(draws), config(most=0), 1, {}, in_all=2)


def test_a_component_that_the_reward_lacks_is_named_with_those_that_it_has():
    with pytest.raises(ConfigError, match=r"'accuracy'[\s\S]*hint: choose one of: acc, seq_reward, text"):
        sample_until_full(lambda: scored("aa", [1, 0]), config("accuracy"), 1, {})
