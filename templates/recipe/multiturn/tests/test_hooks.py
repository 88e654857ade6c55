# vextract:hook  yours: written once, never touched by an upgrade
"""How to test the hooks. Change these with the hooks: each shows how to call one without a training run."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from __package__ import custom  # noqa: F401  (registers the hooks)
from __package__.custom.env_dataset import EnvDataset, environment_rows
from __package__.custom.env_wrapper import make_env
from __package__.custom.reward_manager import EnvRewardManager
from __package__.data.dataloading import encoded

# The environment


def test_guesses_are_answered_until_one_is_right():
    env = make_env({})
    assert env.reset(options={"digit": 7}) == ("?", {"ground_truth": "7", "turn": 0})
    assert env.step("5")[:4] == ("+", 0.0, False, False)
    assert env.step("8")[:4] == ("-", 0.0, False, False)
    observation, reward, terminated, truncated, info = env.step(" 7 ")
    assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)
    assert info == {"acc": 1.0, "format": 1.0, "turn": 3}
    with pytest.raises(RuntimeError, match="reset"):
        env.step("7")


def test_what_is_not_a_digit_costs_a_turn():
    env = make_env({"max_turns": 2})
    env.reset(options={"digit": 0})
    assert env.step("12") == ("!", 0.0, False, False, {"acc": 0.0, "format": 0.0, "turn": 1})
    assert env.step("")[:4] == ("", 0.0, False, True)


def test_halving_finds_every_digit_in_four_turns():
    for digit in range(10):
        env, low, high = make_env({"max_turns": 4}), 0, 9
        env.reset(options={"digit": digit})
        done = False
        while not done:
            guess = (low + high) // 2
            answer, reward, terminated, truncated, _ = env.step(str(guess))
            low, high = (guess + 1, high) if answer == "+" else (low, guess - 1)
            done = terminated or truncated
        assert reward == 1.0


def test_a_seed_gives_the_same_digits_again():
    env = make_env({})

    def digits():
        return [env.reset(seed=3)[1], *(env.reset()[1] for _ in range(5))]

    assert digits() == digits()


# The dataset


def test_the_prompt_does_not_tell_the_digit():
    for split, count in (("train", 100), ("val", 10)):
        rows = environment_rows(split, {})
        assert len(rows) == count and {row["extra_info"]["digit"] for row in rows} == set(range(10))
        assert {row["prompt"][0]["content"] for row in rows} == {"?"}


def test_the_dataset_gives_prompts_padded_on_the_left(tokenizer):
    config = OmegaConf.create({"max_prompt_length": 12, "env": {}, "filter_overlong_prompts": False})
    dataset = EnvDataset(data_files=["val"], tokenizer=tokenizer, config=config)
    item = encoded(dataset, tokenizer, config)[3]
    assert item["input_ids"].shape == item["attention_mask"].shape == item["position_ids"].shape == (12,)
    assert tokenizer.decode(item["raw_prompt_ids"]) == "<user>?<assistant>"
    assert item["extra_info"]["digit"] == 3


# The reward


def test_the_environments_rewards_are_the_reward(tokenizer, answered):
    batch = answered(["?", "?"], ["5", "3"], ["5", "5"])
    batch.batch["rm_scores"] = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    batch.non_tensor_batch["acc"] = np.array([1.0, 0.0])
    batch.meta_info["reward_extra_keys"] = ["acc"]
    result = EnvRewardManager(tokenizer, num_examine=0)(batch, return_dict=True)
    assert result["reward_tensor"].tolist() == batch.batch["rm_scores"].tolist()
    assert result["reward_extra_info"] == {"acc": [1.0, 0.0]}


def test_without_episodes_a_response_is_the_only_guess(tokenizer, answered):
    batch = answered(["?", "?", "?"], ["5", "3", "5="], ["5", "5", "5"])
    batch.non_tensor_batch["extra_info"] = np.array([{"digit": 5}] * 3)
    result = EnvRewardManager(tokenizer, num_examine=0)(batch, return_dict=True)
    assert result["reward_tensor"].tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert result["reward_extra_info"]["format"] == [1.0, 1.0, 0.0]
