"""The reward model of a run, as a project runs it."""

from typing import Any

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


POLICYS, OWN = "${actor_rollout_ref.model.path}", "reward_model.model.input_tokenizer"
LOCAL = "local.reward_model.input_tokenizer"
FED: tuple[tuple[dict[str, Any], dict[str, Any], dict[str, Any]], ...] = (
    # verl's default is the policy's path
    ({**OLD, OWN: "/policy"}, NEWEST, {**TEMPLATED, LOCAL: POLICYS}),
    ({**OLD, OWN: "/policy"}, OLDER, {**TEMPLATED, OWN: POLICYS}),
    # a release whose reward models are servers, which always have their own template
    ({**POLICY, "reward.reward_model.enable": True}, NEWEST, {**TEMPLATED, LOCAL: POLICYS}),
    ({**OLD, OWN: "/other"}, OLDER, {**TEMPLATED, OWN: "/other"}),
    ({**OLD, OWN: None}, OLDER, {OWN: None}),
    ({**POLICY, "reward_model.enable": False}, NEWEST, {}),
)


def test_how_it_is_fed() -> None:
    for flat, project, expected in FED:
        found, _, remarks = convert_reward_model(flat, {}, project, None)
        assert (found, remarks) == (expected, [])


def test_what_the_run_says_of_it_is_carried() -> None:
    flat = {**OLD, "reward_model.max_length": 512}
    assert convert_reward_model(flat, flat, NEWEST, None)[0]["local.reward_model.max_length"] == 512


def test_a_generative_one_is_no_classifier() -> None:
    function = "async def compute_score(solution_str, reward_router_address, reward_model_tokenizer): ..."
    found, used, remarks = convert_reward_model({**POLICY, "reward.reward_model.enable": True}, {}, NEWEST, function)
    assert found == {"reward.reward_model.enable": False}
    assert used == {"reward.reward_model.enable"}
    assert [remark.what for remark in remarks] == ["to do"]
