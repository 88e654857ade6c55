# vextract:hook  yours: written once, never touched by an upgrade
"""How to test the hooks. Change these with the hooks: each shows how to call one without a training run."""

import pytest
from omegaconf import OmegaConf

from __package__ import custom  # noqa: F401  (registers the hooks)
from __package__.custom import env_dataset
from __package__.custom.env_dataset import EnvDataset, environment_rows
from __package__.custom.env_wrapper import make_env
from __package__.custom.reward_manager import EnvRewardManager, extract_action, score_action
from __package__.data.dataloading import encoded
from __package__.switches import EPISODES

# The environment


def test_a_right_answer_earns_the_whole_reward():
    env = make_env({"task": "succ2"})
    observation, info = env.reset(options={"question": "39="})
    assert (observation, info["ground_truth"]) == ("39=", "40")
    observation, reward, terminated, truncated, _ = env.step("40")
    assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)


if EPISODES:

    def test_a_wrong_answer_gets_a_hint_while_turns_are_left():
        env = make_env({"task": "succ2", "max_turns": 2})
        env.reset(options={"question": "12="})
        observation, reward, terminated, truncated, info = env.step("29")
        assert (observation, reward, terminated, truncated) == ("12=2?", 0.5, False, False)
        assert info["turn"] == 1
        _, reward, terminated, truncated, _ = env.step("00")
        assert (reward, terminated, truncated) == (0.0, False, True)
        with pytest.raises(RuntimeError, match="reset"):
            env.step("23")

else:

    def test_a_wrong_answer_earns_its_right_characters():
        env = make_env({"task": "succ2"})
        env.reset(options={"question": "12="})
        assert env.step("29")[1] == 0.5
        with pytest.raises(RuntimeError, match="reset"):
            env.step("23")


def test_a_seed_gives_the_same_questions_again():
    env = make_env({"task": "add1"})
    first = [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]]
    assert first == [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]]


@pytest.mark.parametrize("task", ["add1", "succ2"])
def test_validation_questions_are_held_out(task):
    (_, train), (source, val) = (make_env({"task": task}).states(split, {}) for split in ("train", "val"))
    assert source.endswith("_held_out") and (len(train), len(val)) == (80, 20)
    assert not any(state in train for state in val)


def test_a_task_too_small_to_hold_questions_out_says_so(capsys):
    rows = environment_rows("val", {"task": "succ"})
    assert {row["data_source"] for row in rows} == {"toy_succ_seen"}
    assert "memorised" in capsys.readouterr().out


# The dataset


def test_the_dataset_gives_prompts_padded_on_the_left(tokenizer):
    config = OmegaConf.create({"max_prompt_length": 12, "env": {"task": "succ2"}, "filter_overlong_prompts": False})
    dataset = encoded(EnvDataset(data_files=["val"], tokenizer=tokenizer, config=config), tokenizer, config)
    item = dataset[0]
    assert len(dataset) == 20
    assert item["input_ids"].shape == item["attention_mask"].shape == item["position_ids"].shape == (12,)
    assert item["input_ids"][0] == tokenizer.pad_token_id
    assert tokenizer.decode(item["raw_prompt_ids"]) == f"<user>{item['extra_info']['question']}<assistant>"


def test_an_environment_that_lists_no_states_begins_from_seeds(monkeypatch):
    class Rolls:
        def reset(self, *, seed=None, options=None):
            return f"{seed}?", {}

    monkeypatch.setattr(env_dataset, "make_env", lambda settings: Rolls())
    rows = [row for split in ("val", "train") for row in environment_rows(split, {"val_size": 2, "train_size": 3})]
    assert [row["prompt"][0]["content"] for row in rows] == ["0?", "1?", "2?", "3?", "4?"]
    assert [row["extra_info"]["env_seed"] for row in rows] == [0, 1, 2, 3, 4]
    assert {row["data_source"] for row in rows} == {"Rolls"}


# The reward


@pytest.mark.parametrize(
    ("text", "action"),
    [("48", "48"), (" 48 ", "48"), ("so <answer>4</answer>, no: <answer> 48 </answer>.", "48"), ("", "")],
)
def test_the_action_is_found_in_the_text(text, action):
    assert extract_action(text) == action


def test_the_reward_is_on_the_last_token_of_each_response(tokenizer, answered):
    batch = answered(["37=", "37=", "37="], ["48", "4", ""], ["48", "48", "48"])
    result = EnvRewardManager(tokenizer, num_examine=0)(batch, return_dict=True)
    assert result["reward_tensor"].tolist() == [[0, 0, 1, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]]
    assert result["reward_extra_info"]["acc"] == [1.0, 0.0, 0.0]
    assert result["reward_extra_info"]["pred"] == ["48", "4", ""]


def test_a_row_of_the_environment_is_played_and_any_other_compared():
    (row, *_) = environment_rows("train", {"task": "succ2"})
    truth, state = row["reward_model"]["ground_truth"], row["extra_info"]
    assert score_action("", f"so <answer>{truth}</answer>", None, state)["score"] == 1.0
    assert score_action("", "Lima", "Lima")["acc"] == 1.0 and score_action("", "Lomé", "Lima")["score"] == 0.5


def test_a_scoring_function_of_ones_own_is_used(tokenizer, answered):
    def compute_score(data_source, solution_str, ground_truth, extra_info):
        return {"score": float(len(solution_str)), "length": len(solution_str)}

    batch = answered(["37=", "1="], ["48", "2"], ["48", "2"])
    result = EnvRewardManager(tokenizer, 0, compute_score=compute_score)(batch, return_dict=True)
    assert result["reward_tensor"].sum(-1).tolist() == [2.0, 1.0]
    assert result["reward_extra_info"]["length"] == [2, 1]
