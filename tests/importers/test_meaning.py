"""What becomes of verl's settings that a project has no key for."""

from typing import Any

from extractor.importers.runs import settings, unsupported_keys
from extractor.importers.runs.convert import Experiment
from extractor.importers.runs.run import Run
from extractor.importers.runs.unsupported_keys import find_rule, is_about_where, is_of_another_back_end

# A key, what becomes of it, whether another back end reads it, and whether it says where a run computes.
KINDS = (
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
)


def test_each_kind_of_setting() -> None:
    for key, what, elsewhere, about_where in KINDS:
        rule = find_rule(key)
        assert (rule and rule.what) == what, key
        assert (is_of_another_back_end(key), is_about_where(key)) == (elsewhere, about_where), key


def carrying_of(
    flat: dict[str, Any], project: dict[str, Any], stated: dict[str, Any] | None = None
) -> settings._Carrying:
    made = Experiment("0.9.1", "grpo", "hf", (), "toy", flat, {})
    return settings._Carrying(Run("run.sh"), made, project, flat, frozenset(), stated or {})


def test_every_rule_has_a_place() -> None:
    """Each pattern is there once, so that moving one moves it everywhere."""
    rules = (*unsupported_keys._OTHER_BACK_ENDS, *unsupported_keys._OTHER_SERVERS, *unsupported_keys._OTHER_PARTS)
    assert len({rule.pattern for rule in rules}) == len(rules)
    assert {rule.what for rule in rules} == {"lowered", "dropped", "not carried over"}


def test_tools_of_a_run_are_no_environment_of_the_project() -> None:
    project = {"local.env.is_reward": True}
    for flat in ({"actor_rollout_ref.rollout.multi_turn.enable": True}, {}):
        carrying = carrying_of(flat, project)
        assert carrying.episodes() == ({"local.env.is_reward": False} if flat else {})
        assert [item.what for item in carrying.remarks] == ["to do"] * bool(flat)


def test_what_is_carried_of_a_key() -> None:
    """How long a run is, where it does not say; and no reference that leads nowhere."""
    for key, carried in (("trainer.test_freq", True), ("trainer.balance_batch", False)):
        value, _ = carrying_of({key: -1}, {})._local(key, key, 10)
        assert (value == -1) is carried
    key = "data.gen_batch_size"
    references = {"${fork.size}": False, "${mul:2,${fork.n}}": False, "${oc.env:HOME}/a": True, "a": True}
    for value, carried in references.items():
        found, remark = carrying_of({key: value}, {}, {key: value})._local(key, key, None)
        assert (found == value, remark is None) == (carried, carried), value
