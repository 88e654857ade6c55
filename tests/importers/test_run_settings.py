"""What becomes of a run's settings in a project, of those it states and of those it leaves to its release."""

from pathlib import Path
from typing import Any

from extractor.importers.runs import report, settings
from extractor.importers.runs.experiment import Experiment
from extractor.importers.runs.report import (
    KEPT,
    Remark,
    find_rule,
    is_about_where,
    is_of_another_back_end,
    remark_on_defaults,
)
from extractor.importers.runs.run import Run
from extractor.importers.runs.settings import convert_reward_model
from extractor.values.configtree import flatten, resolve
from tests.importers.conftest import imported, put
from tests.releases import NEWEST

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
    made = Experiment("grpo", "hf", (), "toy", flat, {})
    return settings._Carrying(Run("run.sh"), made, project, flat, frozenset(), stated or {})


def test_every_rule_has_a_place() -> None:
    """Each pattern is there once, so that moving one moves it everywhere."""
    rules = (*report._OTHER_BACK_ENDS, *report._OTHER_SERVERS, *report._OTHER_PARTS)
    assert len({rule.pattern for rule in rules}) == len(rules)
    assert {rule.what for rule in rules} == {"lowered", "dropped", "not carried over", "to do"}


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


POLICY = {"actor_rollout_ref.model.path": "/policy"}
OLD = {**POLICY, "reward_model.enable": True}
LATER = {
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
    ({**OLD, OWN: "/policy"}, LATER, {**TEMPLATED, LOCAL: POLICYS}),
    ({**OLD, OWN: "/policy"}, OLDER, {**TEMPLATED, OWN: POLICYS}),
    # a release whose reward models are servers, which always have their own template
    ({**POLICY, "reward.reward_model.enable": True}, LATER, {**TEMPLATED, LOCAL: POLICYS}),
    ({**OLD, OWN: "/other"}, OLDER, {**TEMPLATED, OWN: "/other"}),
    ({**OLD, OWN: None}, OLDER, {OWN: None}),
    ({**POLICY, "reward_model.enable": False}, LATER, {}),
)


def test_how_it_is_fed() -> None:
    for flat, project, expected in FED:
        found, _, remarks = convert_reward_model(flat, {}, project, None)
        assert (found, remarks) == (expected, [])


def test_what_the_run_says_of_it_is_carried() -> None:
    flat = {**OLD, "reward_model.max_length": 512}
    assert convert_reward_model(flat, flat, LATER, None)[0]["local.reward_model.max_length"] == 512


def test_a_generative_one_is_no_classifier() -> None:
    function = "async def compute_score(solution_str, reward_router_address, reward_model_tokenizer): ..."
    found, used, remarks = convert_reward_model({**POLICY, "reward.reward_model.enable": True}, {}, LATER, function)
    assert found == {"reward.reward_model.enable": False}
    assert used == {"reward.reward_model.enable"}
    assert [remark.what for remark in remarks] == ["to do"]


KEYS = ["data.max_response_length", "actor_rollout_ref.rollout.response_length", "trainer.total_epochs"]
PROJECT = dict.fromkeys(KEYS, 1)


def test_what_the_sizes_of_a_toy_model_change_back_follows_as_before(tmp_path: Path) -> None:
    run = put(tmp_path, {"run.sh": "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo\n"}) / "run.sh"
    written = imported(tmp_path / "made", run, "--run-verl", "0.4.1").recipe
    assert "max_prompt_length: 512" in written
    assert " prompt_length" not in written
    assert " response_length" not in written


RELEASE = {
    "rollout": {"n": 1, "bucket": 2048},
    "critic": {"rollout_n": "${oc.select:rollout.n,1}", "size": "${rollout.n}"},
    "data": {"seed": 1},
}


def said_of(run: dict[str, Any], stated: dict[str, Any], project: dict[str, Any], said: list[Remark]) -> list[Any]:
    release = flatten(resolve(RELEASE))
    return [
        (item.key, item.value, item.what)
        for item in remark_on_defaults(run, stated, project, release, (lambda key: None, lambda key: None), said)
    ]


def test_a_default_or_statement_that_differs_is_said_once() -> None:
    run = {"rollout.n": 1, "rollout.bucket": 512, "data.seed": None, "only.then": 3, "class._target_": "a.B"}
    assert said_of(run, {}, {"data.seed": 42}, []) == [("rollout.bucket", 512, KEPT), ("data.seed", None, KEPT)]
    assert said_of({"data.seed": 7}, {"data.seed": 7}, {"data.seed": 42}, []) == [("data.seed", 7, "changed")]
    said = [Remark("data.seed", None, "lowered", "")]
    assert said_of({"data.seed": None}, {}, {"data.seed": 42}, said) == []


def test_of_two_names_the_one_that_is_not_said_does_not_count() -> None:
    old, new = "trainer.val_generations_to_log_to_wandb", "trainer.log_val_generations"
    assert said_of({old: 0, new: 4}, {new: 4}, {new: 4}, []) == []
    assert said_of({old: None, new: 4}, {}, {new: 4}, []) == []
    assert said_of({old: 0, new: 4}, {}, {new: 4}, []) == [(old, 0, KEPT)]
    assert said_of({old: 0, new: 4}, {new: 4}, {new: 5}, []) == [(old, 0, KEPT), (new, 4, "changed")]


SCRIPT = """
python3 -m verl.trainer.main_ppo data.train_files=$PWD/data/train.parquet data.val_files=$PWD/data/val.parquet \\
    actor_rollout_ref.model.path=a/b actor_rollout_ref.rollout.name=vllm algorithm.adv_estimator=grpo \\
    actor_rollout_ref.actor.fsdp_config.fsdp_size=8
"""


def test_a_key_that_follows_here_has_the_run_s_value(tmp_path: Path) -> None:
    """In a project the reference model's shards are as many as the policy's, and in verl all of them."""
    checkout = put(tmp_path / "checkout", {"examples/run.sh": SCRIPT, "verl/trainer/main_ppo.py": "", "setup.py": ""})
    made = imported(tmp_path / "p", checkout / "examples/run.sh", "--verl", NEWEST[-1]).settings
    assert made["actor_rollout_ref.actor.fsdp_config.fsdp_size"] == 8
    assert made["actor_rollout_ref.ref.fsdp_config.fsdp_size"] == -1
    # It is started where its program is found, and not where it lies.
    assert made["data.train_files"] == f"{tmp_path}/checkout/data/train.parquet"


OWN = """
defaults: [ppo_trainer, _self_]
reward:
  reward_manager: {name: dapo}
  reward_kwargs: {overlong_buffer_cfg: {enable: false, len: 0, penalty_factor: 0.0}}
"""


def test_what_the_command_says_counts_over_a_config_s_other_name(tmp_path: Path) -> None:
    """A script may be older than the config beside it."""
    said = " ".join(f"reward_model.overlong_buffer.{item}" for item in ("enable=True", "len=64", "penalty_factor=0.5"))
    launch = f"{SCRIPT.strip()} {said} --config-path . --config-name mine\n"
    script = put(tmp_path, {"mine.yaml": OWN, "run.sh": launch}) / "run.sh"
    made = imported(tmp_path / "p", script, "--verl", NEWEST[-1]).settings
    prefix = "reward.reward_kwargs.overlong_buffer_cfg."
    expected = {"enable": True, "len": 64, "penalty_factor": 0.5}
    assert {name: made[prefix + name] for name in expected} == expected
