# vextract:hook  yours: written once, never touched by an upgrade
"""How to test the hooks. Change these with the hooks: each shows how to call one without a training run."""

import re

import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer

from __package__ import custom  # noqa: F401  (registers the hooks)
from __package__.custom.env_dataset import EnvDataset, environment_rows, ground_truth
from __package__.custom.env_wrapper import make_env
from __package__.custom.reward_manager import EnvRewardManager, score_answer
from __package__.data import problems
from __package__.data.dataloading import encoded
from __package__.data.datasets import DataError
from __package__.data.toy import ensure_toy_model

# The problems


def test_the_sample_is_made_of_problems_with_whole_numbers_for_answers():
    questions = [question for question, _ in (*problems.TRAIN, *problems.VAL)]
    assert len(set(questions)) == len(questions) == 32
    assert all(isinstance(answer, int) for _, answer in (*problems.TRAIN, *problems.VAL))
    assert all(re.search(r"[.?]$", question) for question in questions)


def test_rows_are_in_verls_schema_and_end_with_the_instruction():
    (row, *_) = environment_rows("val", {"source": "sample", "instruction": "Answer as #### 42"})
    assert row["prompt"][0]["content"].endswith("Answer as #### 42")
    assert row["data_source"] == "gsm8k_sample" and row["reward_model"] == {"style": "rule", "ground_truth": "36"}
    assert len(environment_rows("train", {"source": "sample"})) == 24


def test_without_the_hub_the_sample_is_used_and_that_is_said(capsys):
    rows = environment_rows("train", {"source": "auto", "path": "nobody/nothing"})
    assert len(rows) == 24
    said = capsys.readouterr().out
    assert "cannot load nobody/nothing" in said and "handmade problems of data/problems.py" in said


def test_asked_for_the_hub_and_nothing_else_it_fails():
    with pytest.raises(DataError, match="cannot load nobody/nothing"):
        environment_rows("train", {"source": "hub", "path": "nobody/nothing"})
    with pytest.raises(DataError, match="data.env.source is 'web'"):
        environment_rows("train", {"source": "web"})


def test_a_copy_of_the_data_set_is_read(tmp_path):
    import datasets

    row = {"question": "How many?", "answer": "6 times 200 is 1200.\n#### 1,200"}
    datasets.DatasetDict({name: datasets.Dataset.from_list([row]) for name in ("train", "test")})["test"].to_parquet(
        tmp_path / "data" / "test-00000.parquet"
    )
    (found,) = environment_rows("val", {"source": "hub", "path": str(tmp_path), "name": None})
    assert found["reward_model"]["ground_truth"] == "1200" and found["data_source"] == str(tmp_path)


@pytest.mark.parametrize(("answer", "number"), [("12 + 3 = 15\n#### 15", "15"), ("so\n#### 1,250", "1250"), (7, "7")])
def test_the_ground_truth_is_the_number_at_the_end(answer, number):
    assert ground_truth(answer) == number


def test_the_dataset_drops_prompts_that_are_too_long(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(ensure_toy_model(tmp_path / "toy", task="gsm8k"))
    config = OmegaConf.create({"max_prompt_length": 90, "env": {"source": "sample"}, "filter_overlong_prompts": True})
    config.env.instruction = ""
    dataset = encoded(EnvDataset(data_files=["train"], tokenizer=tokenizer, config=config), tokenizer, config)
    assert 0 < len(dataset) < 24 and dataset[0]["input_ids"].shape == (90,)


# The reward


@pytest.mark.parametrize(
    ("text", "score", "pred"),
    [
        ("3 times 12 is 36.\n#### 36", 1.0, "36"),
        ("#### 36 eggs", 1.0, "36 eggs"),
        ("That is \\boxed{36}.", 1.0, "36"),
        ("so she needs 36 eggs", 1.0, "36"),
        ("#### 1,250", 0.1, "1,250"),
        ("it is 35", 0.0, "35"),
        ("#### none", 0.0, "none"),
        ("", 0.0, ""),
    ],
)
def test_the_answer_is_found_and_compared(text, score, pred):
    result = score_answer("gsm8k", text, "36")
    assert (result["score"], result["pred"]) == (score, pred) and result["acc"] == float(score == 1.0)


@pytest.mark.parametrize(
    ("given", "truth", "right"),
    [("#### 0.5", "1/2", 1.0), ("#### 1,250", "1250", 1.0), ("#### \\frac{3}{4}", "0.75", 1.0), ("#### -5", "5", 0.0)],
)
def test_numbers_are_compared_by_value(given, truth, right):
    assert score_answer("gsm8k", given, truth)["acc"] == right


def test_the_reward_is_on_the_last_token_of_each_response(tokenizer, answered):
    batch = answered(["3", "4", "5"], ["36", "7", ""], ["36", "36", "36"])
    result = EnvRewardManager(tokenizer, num_examine=0)(batch, return_dict=True)
    assert result["reward_tensor"].tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert result["reward_extra_info"]["acc"] == [1.0, 0.0, 0.0]


def test_samples_are_scored_in_processes_as_here(tokenizer, answered):
    batch = answered(["3", "4"], ["36", "7"], ["36", "36"])
    here = EnvRewardManager(tokenizer, num_examine=0)(batch, return_dict=True)
    manager = EnvRewardManager(tokenizer, num_examine=0, num_workers=1, timeout=60.0)
    there = manager(batch, return_dict=True)
    manager.close()
    assert there["reward_tensor"].tolist() == here["reward_tensor"].tolist()
    assert there["reward_extra_info"] == {**here["reward_extra_info"], "unscored": [0.0, 0.0]}


# The environment


def test_a_wrong_answer_may_be_tried_again():
    env = make_env({"max_turns": 2})
    question, info = env.reset(options=environment_rows("val", {"source": "sample"})[0]["extra_info"])
    assert question.startswith("A cook uses 4 eggs") and info == {"ground_truth": "36"}
    observation, reward, terminated, truncated, _ = env.step("#### 13")
    assert "not right" in observation and (reward, terminated, truncated) == (0.0, False, False)
    assert env.step("#### 36")[:4] == ("", 1.0, True, False)
