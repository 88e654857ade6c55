# vextract:template - edit freely
"""A model as judge gives the reward."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from __package__.settings import reward_keys
from __package__.tracking.run_tracker import read_rows


@pytest.fixture
def judge(model_path, tmp_path):
    """A random model with one label, and the vocabulary of the toy model."""
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(model_path, num_labels=1)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "judge")
    return tmp_path / "judge"


def test_a_judge_gives_the_reward(train, model_path, judge):
    model = f"actor_rollout_ref.model.path={model_path}"
    options = f"{reward_keys.JUDGE}=true", f"{reward_keys.JUDGE_PATH}={judge}", "data.max_response_length=4"
    sizes = "data.max_prompt_length=256", "data.filter_overlong_prompts=false", "local.num_threads=1"
    row = read_rows(train(model, *sizes, *options) / "metrics.jsonl")[-1]
    assert row["critic/score/mean"] != 0.0 and row["critic/score/max"] != row["critic/score/min"]


def test_a_judge_that_is_not_there_is_an_error_with_a_hint(train, capsys):
    train(f"{reward_keys.JUDGE}=true", code=2)
    assert f"set {reward_keys.JUDGE_PATH}" in capsys.readouterr().err
    train(f"{reward_keys.JUDGE}=true", f"{reward_keys.JUDGE_PATH}=/nowhere", code=2)
    assert f"hint: check {reward_keys.JUDGE_PATH}" in capsys.readouterr().err
