"""What becomes of verl's settings that a project has no key for."""

from __future__ import annotations

import pytest

from extractor.importers.runs import meaning, settings
from extractor.importers.runs.meaning import is_about_where, is_of_another_back_end, rule_for


@pytest.mark.parametrize(
    ("key", "what", "elsewhere", "about_where"),
    [
        ("trainer.nnodes", "lowered", True, True),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size", "lowered", True, True),
        ("ray_init.num_cpus", "dropped", True, True),
        ("actor_rollout_ref.actor.megatron.anything", "dropped", True, True),
        ("actor_rollout_ref.model.use_liger", "dropped", True, True),
        ("actor_rollout_ref.rollout.agent.num_workers", "dropped", False, True),
        ("actor_rollout_ref.rollout.multi_turn.format", "dropped", False, True),
        ("actor_rollout_ref.rollout.engine_kwargs.vllm.x", "dropped", False, False),
        ("critic.checkpoint.save_contents", "dropped", False, False),
        ("data.seed", "dropped", False, False),
        ("algorithm.new_one", "not carried over", False, False),
        ("algorihm.gamma", None, False, False),
    ],
)
def test_each_kind_of_setting(key: str, what: str | None, elsewhere: bool, about_where: bool) -> None:
    rule = rule_for(key)
    assert (rule and rule.what) == what
    assert is_of_another_back_end(key) is elsewhere
    assert is_about_where(key) is about_where


def test_every_rule_has_a_place() -> None:
    """Each pattern is there once, so that moving one moves it everywhere."""
    rules = (*meaning._OTHER_BACK_ENDS, *meaning._OTHER_SERVERS, *meaning._OTHER_PARTS)
    assert len({rule.pattern for rule in rules}) == len(rules)
    assert {rule.what for rule in rules} == {"lowered", "dropped", "not carried over"}


def test_tools_of_a_run_are_no_environment_of_the_project() -> None:
    remarks: list[meaning.Remark] = []
    project = {"local.env.is_reward": True}
    found = settings._episodes({"actor_rollout_ref.rollout.multi_turn.enable": True}, project, remarks)
    assert found == {"local.env.is_reward": False}
    assert [item.what for item in remarks] == ["to do"]
    assert settings._episodes({}, project, remarks) == {}
