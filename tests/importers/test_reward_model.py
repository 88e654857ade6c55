"""The reward model of a run, as a project runs it."""

from typing import Any

import pytest

from extractor.importers.runs.settings import convert_reward_model

POLICY = {"actor_rollout_ref.model.path": "/policy"}
OLD = {**POLICY, "reward_model.enable": True}
NEWEST = {
    "reward.reward_model.enable": False,
    "local.reward_model.input_tokenizer": None,
    "local.reward_model.max_length": None,
}
OLDER = {"reward_model.enable": False, "reward_model.model.input_tokenizer": None, "reward_model.max_length": None}
TEMPLATED: dict[str, Any] = {"data.return_raw_chat": True}


@pytest.mark.parametrize(
    ("flat", "project", "expected"),
    [
        # verl's default: the policy's path
        (
            {**OLD, "reward_model.model.input_tokenizer": "/policy"},
            NEWEST,
            {**TEMPLATED, "local.reward_model.input_tokenizer": "${actor_rollout_ref.model.path}"},
        ),
        (
            {**OLD, "reward_model.model.input_tokenizer": "/policy"},
            OLDER,
            {**TEMPLATED, "reward_model.model.input_tokenizer": "${actor_rollout_ref.model.path}"},
        ),
        # a release whose reward models are servers, which always have their own template
        (
            {**POLICY, "reward.reward_model.enable": True},
            NEWEST,
            {**TEMPLATED, "local.reward_model.input_tokenizer": "${actor_rollout_ref.model.path}"},
        ),
        ({**OLD, "reward_model.model.input_tokenizer": "/other"}, OLDER,
         {**TEMPLATED, "reward_model.model.input_tokenizer": "/other"}),
        ({**OLD, "reward_model.model.input_tokenizer": None}, OLDER, {"reward_model.model.input_tokenizer": None}),
        ({**POLICY, "reward_model.enable": False}, NEWEST, {}),
    ],
)  # fmt: skip
def test_how_it_is_fed(flat: dict[str, Any], project: dict[str, Any], expected: dict[str, Any]) -> None:
    found, _, remarks = convert_reward_model(flat, {}, project, None)
    assert found == expected
    assert remarks == []


def test_what_the_run_says_of_it_is_carried() -> None:
    flat = {**OLD, "reward_model.max_length": 512}
    assert convert_reward_model(flat, flat, NEWEST, None)[0]["local.reward_model.max_length"] == 512


def test_a_generative_one_is_no_classifier() -> None:
    function = "async def compute_score(solution_str, reward_router_address, reward_model_tokenizer): ..."
    found, used, remarks = convert_reward_model({**POLICY, "reward.reward_model.enable": True}, {}, NEWEST, function)
    assert found == {"reward.reward_model.enable": False}
    assert used == {"reward.reward_model.enable"}
    assert [remark.what for remark in remarks] == ["to do"]
