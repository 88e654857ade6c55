"""What else keeps a fork's method from running: rewards of single rows, names of upstream's, code that nobody runs."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from extractor.importers.adopt.find_methods import find_given, find_method, list_arguments
from extractor.importers.python_text.unset_branches import drop_unset_branches
from tests.importers.adopt.forks import ACTOR, ALGOS, TRAINER, Fork
from tests.importers.adopt.test_method_hooks import MANAGER, code_of
from tests.importers.conftest import imported_from
from tests.importers.test_managers import in_program, registered, scored

LOOP = "experimental/reward/reward_loop/naive.py"
COUNTED = '''

@register_adv_est("counted")
def compute_counted(token_level_rewards, response_mask, steps, extra=None, config=None):
    """Weighs a response by its steps."""
    weights = torch.as_tensor(steps.astype(float), dtype=torch.float32)[:, None]
    return token_level_rewards * weights * response_mask, token_level_rewards
'''
OF_ROWS = """
class Rows:
    def __init__(self, config, tokenizer, compute_score=None):
        self.compute_score = compute_score

    async def run_single(self, data):
        length = len(data.batch["responses"][0])
        return {"reward_score": 2.0, "reward_extra_info": {"length": length}}
"""
HALVING = """
class Halving:
    def __init__(self, tokenizer, num_examine, compute_score=None):
        self.tokenizer = tokenizer

    def __call__(self, data, return_dict=False):
        return data.batch["responses"] / 2
"""
HALVES = '                        batch.batch["token_level_scores"] = reward_tensor\n'


class Rows:
    """As much of a batch as such a manager reads."""

    def __init__(self, **batch: Any) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return len(self.batch["responses"])

    def __getitem__(self, rows: slice) -> "Rows":
        return Rows(**{name: column[rows] for name, column in self.batch.items()})


@pytest.fixture
def counting(fork_0_6_1: Fork) -> Fork:
    """A fork whose estimator reads what its reward loop reports, and whose actor has a branch that nobody chooses."""
    fork = fork_0_6_1
    fork.append(ALGOS, COUNTED)
    hand = '        adv_kwargs["steps"] = data.non_tensor_batch["steps"]\n'
    fork.change(TRAINER, "        # calculate advantage estimator\n", hand)
    fork.change(LOOP, "        reward = score\n", '        reward_extra_info["steps"] = 3\n        reward = score\n')
    fork.write("workers/reward_manager/remote.py", MANAGER.replace("own_manager", "remote"))
    branch = 'if self.config.get("mine_on", False): data.batch["only_mine"] += 1'
    fork.into(ACTOR, "update_policy", branch)
    fork.into(TRAINER, "fit", 'batch = {}; batch["only_mine"] = 1')
    # A trainer that was put aside hands more to the estimator; nothing imports it.
    fork.write(
        "trainer/ppo/put_aside_trainer.py", "def old(data):\n    return compute_counted(1, 2, 3, extra=data.seen)\n"
    )
    return fork


def test_the_method_runs(run: Any, tmp_path: Path, counting: Fork) -> None:
    project = tmp_path / "toy"
    result = run("adopt", counting.top, project, "--offline", "--json")
    assert result.code == 0, result.err
    methods = {item["name"]: item for item in json.loads(result.out)["methods"]}
    assert {item["runs"] for item in methods.values()} == {"runs"}, methods
    assert methods["counted"]["why"] == "it reads steps of your reward"
    assert methods["NaiveRewardLoopManager"]["setting"] == "reward_model.reward_manager=of_the_run"
    assert methods["remote"]["setting"] == "reward_model.reward_manager=remote"
    readme = (project / "README.md").read_text()
    assert "Made of the fork of verl 0.6.1 in `repo`; your method runs: counted" in readme.replace("\n", " ")
    assert "each digit's successor" not in readme
    counting.change(ACTOR, '"mine_on", False', '"use_kl_loss", False')
    report = json.loads(run("adopt", counting.top, tmp_path / "b/toy", "--offline", "--json").out)
    (edit,) = [item for item in report["methods"] if item["kind"] == "edit"]
    assert (edit["runs"], "only_mine" in edit["why"]) == ("runs in part", True)


def test_managers_and_a_loop_that_make_rewards_otherwise_run(run: Any, tmp_path: Path, fork_0_6_1: Fork) -> None:
    """One manager is chosen by an if, two of verl's were changed, and the loop halves what they give."""
    fork, folder = fork_0_6_1, "workers/reward_manager/"
    fork.write(f"{folder}halving.py", HALVING)
    choose = 'if config.reward_model.reward_manager == "halving": reward_manager_cls = Halving'
    fork.into("trainer/ppo/reward.py", "load_reward_manager", choose)
    for name in ("batch", "dapo"):
        fork.into(f"{folder}{name}.py", "__call__", "self.mine = 1")
    fork.change(TRAINER, HALVES, f"{' ' * 24}reward_tensor = reward_tensor / 2\n{HALVES}")
    report = json.loads(run("adopt", fork.top, tmp_path / "toy", "--offline", "--json").out)
    assert {item["runs"] for item in report["methods"]} == {"runs"}, report["methods"]
    chosen = {item["name"]: item["setting"].partition("=")[2] for item in report["methods"]}
    assert chosen == {"BatchRewardManager": "of_the_run", "DAPORewardManager": "dapo_fork", "halving": "halving"}
    hooks = (tmp_path / "toy/toy/custom/algorithms.py").read_text()
    assert "reward_tensor = reward_tensor / 2" in hooks
    fork.write(f"{folder}naive.py", "f'{x['y'}'\n")
    fork.change(TRAINER, "reward_tensor / 2", "self.other.halve(reward_tensor)")
    report = json.loads(run("adopt", fork.top, tmp_path / "b/toy", "--offline", "--json").out)
    lost = {item["name"]: item["runs"] for item in report["methods"] if item["runs"] != "runs"}
    assert lost == {"naive": "runs in part", "fit": "runs in part"}


def test_a_critic_that_a_script_asks_for_counts(run: Any, tmp_path: Path, fork_0_6_1: Fork) -> None:
    critic = "workers/critic/dp_critic.py"
    fork_0_6_1.write(critic, fork_0_6_1.read(critic).replace("_forward_micro_batch", "_score_row"))
    (fork_0_6_1.top / "run.sh").write_text("python3 -m verl.trainer.main_ppo critic.enable=True\n")
    result = run("adopt", fork_0_6_1.top, tmp_path / "toy", "--offline", "--json")
    report = json.loads(result.out)
    assert "critic" in report["options"]["features"]
    assert [(item["name"], item["runs"]) for item in report["methods"]] == [("DataParallelPPOCritic", "is parked")]
    assert result.code == 1


def test_a_trainer_that_nothing_names_hands_nothing_over(counting: Fork) -> None:
    def find() -> dict[str, str | None]:
        code = code_of(counting)
        method = find_method(code, "counted")
        assert method is not None
        return find_given(code, method)

    steps = {"steps": "now.batch.non_tensor_batch['steps']"}
    assert find() == steps
    counting.write("trainer/main_old.py", "from verl.trainer.ppo.put_aside_trainer import old\n")
    assert find() == {"steps": "3", "extra": "now.batch.seen"}


def test_a_loss_is_handed_a_list_where_upstream_hands_a_number(fork_0_6_1: Fork) -> None:
    taken = "old_log_prob, log_prob, advantages, response_mask, cliprange"
    fork_0_6_1.append(ALGOS, f"\n\ndef compute_policy_loss_pair({taken}):\n    return log_prob.mean()\n")
    call = "compute_policy_loss_pair(1, 2, 3, 4, cliprange=[self.config.low, self.config.high])"
    fork_0_6_1.into(ACTOR, "update_policy", call)
    code = code_of(fork_0_6_1)
    method = find_method(code, "pair")
    assert method is not None
    node = method.module.by_name[method.function].node
    assert isinstance(node, ast.FunctionDef)
    assert list_arguments(code, method, node, [])[-1] == "cliprange=[config.low, config.high]"


def test_a_manager_of_single_rows_is_called_with_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = in_program(tmp_path, "", **{f"src/verl/{LOOP}": OF_ROWS, f"src/verl/{Path(LOOP).parent}/__init__.py": ""})
    tree, settings, _ = scored(places, {})
    assert list(settings.values()) == ["of_the_run"]
    for imports in imported_from(tmp_path / "project", "pkg_of_run", monkeypatch):
        manager = registered(tree, imports)(tokenizer=None, num_examine=0)
        mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
        found = manager(Rows(responses=torch.zeros(2, 2, dtype=torch.long), attention_mask=mask), return_dict=True)
        assert found["reward_tensor"].tolist() == [[2.0, 0.0], [0.0, 2.0]]
        assert found["reward_extra_info"] == {"length": [2, 2]}


@pytest.mark.parametrize(
    ("test", "is_kept"),
    [
        ('self.config.get("nobodys", False)', False),
        ('self.config.get("nobodys")', False),
        ('not self.config.get("nobodys")', True),
        ('self.config.get("nobodys", True)', True),
        ('self.config.get("known", False)', True),
        ('config.get("nobodys") is not None and given', False),
        ("section is not None", False),
        ("section is None or given", True),
        ("turned_on", False),
        ("given", True),
        ("each", True),
    ],
)
def test_a_branch_that_hangs_on_an_unset_setting_goes(test: str, is_kept: bool) -> None:
    code = f"""
class Actor:
    def update(self, given):
        section = self.config.get("nobodys", None)
        turned_on = False
        if section is not None:
            turned_on = given
        for each in given:
            if {test}:
                reached()
"""
    assert ("reached" in drop_unset_branches(code, lambda key: key == "known")) == is_kept
