"""A reward manager that a run names and a project has not comes along with what it imports, and is called as it was."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from extractor.importers.runs import setting_repairs
from extractor.importers.runs import setting_repairs as registration
from extractor.importers.runs.copied_code import managers, named
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject
from extractor.importers.runs.places import RunFolders
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import imported_from, vextract, written
from tests.releases import NEWEST, source_of

REGISTRY = """
MANAGERS = {}


def register(name):
    return lambda found: MANAGERS.setdefault(name, found)
"""
TREE = Tree.of(
    [
        File("pkg_of_run/__init__.py", FileKind.TEMPLATE, b""),
        File("pkg_of_run/custom/__init__.py", FileKind.HOOK, b""),
        File("pkg_of_run/custom/reward_manager.py", FileKind.HOOK, b""),
        File(
            "pkg_of_run/vendored/workers/reward_manager/registry.py",
            FileKind.VENDORED,
            REGISTRY.encode(),
            "verl/workers/reward_manager/registry.py",
        ),
    ]
)
KEY = "reward.reward_manager.name"
FUNCTION = "reward.custom_reward_function"
# As forks of releases without a registry have one in their program: it takes less and returns less than today's.
CLASS = """
from verl.utils.reward_score.mine import half, plus_one


class Mine:
    def __init__(self, tokenizer, num_examine, compute_score=None):
        self.compute_score = compute_score or plus_one

    def __call__(self, data):
        return [half(self.compute_score(item)) for item in data]
"""
MAKES = """

def main(config):
    reward_fn = Mine(tokenizer=None, num_examine=0)
"""
WAITS = "from ray.util import queue\n" + CLASS.replace("return [", "return queue.Queue() and [")
REGISTERED = """
from verl.workers.reward_manager.registry import register
from verl.workers.reward_manager.helpers import half


@register("mine")
class Mine:
    pass
"""


def checkout(folder: Path, **files: str) -> RunFolders:
    root = folder / "fork"
    for path, text in {"setup.py": "", **files}.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return RunFolders.of(root / "run.sh", None)


def in_program(folder: Path, text: str = CLASS, **files: str) -> RunFolders:
    packages = ("", "trainer/", "utils/", "utils/reward_score/", "workers/", "workers/reward_manager/")
    texts = {f"src/verl/{package}__init__.py": "" for package in packages}
    texts["src/verl/trainer/main_ppo.py"] = text if "reward_fn=" in text else f"{text}{MAKES}"
    scorers = "def half(number):\n    return number / 2\n\n\ndef plus_one(item):\n    return item + 1\n"
    texts["src/verl/utils/reward_score/mine.py"] = scorers
    places = checkout(folder, **{**texts, **files})
    return RunFolders((*places.folders, folder / "fork/src"))


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from imported_from(tmp_path / "project", "pkg_of_run", monkeypatch)


def recipient(tree: Tree, places: RunFolders, settings: dict[str, Any]) -> TargetProject:
    return TargetProject(tree, "pkg_of_run", source_of(NEWEST[-1]), places, settings)


def registered(tree: Tree, folder: Path, name: str = "of_the_run") -> Any:
    written(tree, folder)
    importlib.import_module("pkg_of_run.custom.reward_manager")
    return importlib.import_module("pkg_of_run.vendored.workers.reward_manager.registry").MANAGERS[name]


ROWS = SimpleNamespace(non_tensor_batch={"data_source": [1, 3]}, meta_info={}, rows=[3])
CALLED = {
    "a project's own arguments": ((), {"compute_score": None, "reward_fn_key": "data_source"}, [1, 3], [1.0, 2.0]),
    "the project's scorer": ((), {"compute_score": lambda item: 8}, [1], [4.0]),
    "a column": ((("(self, data)", "(self, data, data_sources)"), ("in data]", "in data_sources]")), {}, ROWS, [1, 2]),
    "the config first": (
        (("(self, data)", "(self, config, rows)"), ("in data]", "in config.some + rows.rows]")),
        {"config": OmegaConf.create({"some": [1]})},
        ROWS,
        [1.0, 2.0],
    ),
    "whatever it is given": (
        (("(self, data)", "(self, *args, **more)"), ("in data]", "in args[0].rows]")),
        {},
        ROWS,
        [2],
    ),
    "the step": ((("(self, data)", "(self, data, step)"), ("in data]", "in data], [step]")), {}, [1, 3], [1.0, 2.0]),
}


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("case", CALLED)
def test_a_class_is_called_with_what_it_takes(tmp_path: Path, imports: Path, case: str) -> None:
    edits, made_with, called_with, expected = CALLED[case]
    text = CLASS
    for old, new in edits:
        text = text.replace(old, new)
    tree, _, said = scored(in_program(tmp_path, text), {KEY: "naive"})
    assert said == ["changed"]
    manager = registered(tree, imports)(tokenizer=None, num_examine=0, **made_with)
    assert manager(called_with) == expected
    assert manager(called_with, return_dict=True) == {"reward_tensor": expected, "reward_extra_info": {}}


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    "given",
    [
        "scores, ['a text']",
        "['a text'], scores",
        "{'reward_tensor': scores}, {}",
        "SimpleNamespace(batch={'outcome': scores.sum(-1), 'of_tokens': scores})",  # a DataProto for its own trainer
    ],
)
def test_of_several_things_that_a_manager_returns_the_tensor_counts(tmp_path: Path, imports: Path, given: str) -> None:
    returns = f"        scores = numpy.ones((1, 2))\n        return {given}\n"
    imported = "import numpy\nfrom types import SimpleNamespace\n"
    tree, _, _ = scored(in_program(tmp_path, f"{imported}{CLASS.partition('        return [half')[0]}{returns}"), {})
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]).tolist() == [[1.0, 1.0]]


@pytest.mark.usefixtures("verl")
def test_a_class_that_registers_itself_is_imported(tmp_path: Path, imports: Path) -> None:
    helper = "def half(number):\n    return number / 2\n"
    folder = "verl/workers/reward_manager"
    inits = {f"{path}/__init__.py": "" for path in ("verl", "verl/workers", folder)}
    places = checkout(tmp_path, **inits, **{f"{folder}/mine.py": REGISTERED, f"{folder}/helpers.py": helper})
    taken = managers.take_named(recipient(TREE, places, {KEY: "mine"}))
    why = f"copied from {folder}/mine.py to pkg_of_run/custom/verl_reward_manager.py, with what it imports"
    assert [item.why for item in taken.remarks] == [why]
    assert registered(taken.tree, imports, "mine").__name__ == "Mine"


@pytest.mark.usefixtures("verl")
def test_a_class_is_made_with_what_its_program_hands_it(tmp_path: Path, imports: Path) -> None:
    own = CLASS.replace(
        "compute_score=None):", "url, topk, compute_score=None, **more):\n        self.given = (url, topk, more)"
    )
    more = "url=config.retriever.url, topk=config.retriever.get('topk', 1)"
    program = f"{own}{MAKES.replace('num_examine=0', f'num_examine=0, {more}')}\n# reward_fn="
    tree, _, _ = scored(in_program(tmp_path, program), {KEY: "naive"})
    config = OmegaConf.create({"retriever": {"url": "nowhere", "topk": 100}})
    made = registered(tree, imports)(tokenizer=None, num_examine=0, config=config, cost=1)
    assert made.given == ("nowhere", 100, {"cost": 1})


@pytest.mark.usefixtures("verl")
def test_one_that_cannot_be_imported_here_is_named(tmp_path: Path) -> None:
    tree, settings, said = scored(in_program(tmp_path, WAITS), {KEY: "naive"})
    assert (tree, settings, said) == (TREE, {}, ["to do"])


def test_what_nobody_has_is_put_aside() -> None:
    asked = {KEY: "mine", "algorithm.adv_estimator": "mine_too", "actor_rollout_ref.actor.policy_loss.loss_mode": "x"}
    before = {"algorithm.adv_estimator": "grpo", "actor_rollout_ref.actor.policy_loss.loss_mode": "vanilla"}
    project = recipient(Tree.of([]), RunFolders(()), asked)
    taken, aside = registration.put_aside(project, before)
    assert aside == asked
    assert taken.settings == {KEY: "naive", **before}
    assert [(item.key, item.what) for item in taken.remarks] == [
        (item.key, "to do") for item in registration.remark_on_unknown(project)
    ]
    assert list(registration.remark_on_unknown(recipient(Tree.of([]), RunFolders(()), {KEY: "prime"}))) == []


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("name", ["prime", "nobody-s"])
def test_what_a_project_has_otherwise_or_nobody_has_is_left(tmp_path: Path, name: str) -> None:
    assert managers.take_named(recipient(TREE, in_program(tmp_path), {KEY: name})) == CopyResult(TREE, [])


@pytest.mark.parametrize(("parameters", "left"), [("self, known=1", ["unknown"]), ("self, **given", [])])
def test_arguments_that_a_manager_does_not_take_are_left_out(parameters: str, left: list[str]) -> None:
    text = f'@register("mine")\nclass Mine:\n    def __init__({parameters}):\n        pass\n'
    tree = Tree.of([File("pkg_of_run/custom/mine.py", FileKind.HOOK, text.encode())])
    keys = {f"reward.reward_kwargs.{name}": 1 for name in ("known", "unknown")}
    found = managers.list_not_taken(recipient(tree, RunFolders(()), {KEY: "mine", **keys}))
    assert found == [f"reward.reward_kwargs.{name}" for name in left]


PROGRAM = """
import ray
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.utils.reward_score import mine


def _select(data_source):
    if data_source == "countdown":
        return mine.half
    raise NotImplementedError


class RewardManager:
    def __init__(self, tokenizer, num_examine):
        pass

    def __call__(self, data):
        return [_select("countdown")(item) for item in data]


@ray.remote
def task(config):
    trainer = RayPPOTrainer(config, reward_fn=RewardManager(tokenizer=None, num_examine=0))


if __name__ == "__main__":
    task.remote()
"""
SCORERS = """
def _default_compute_score(data_source, solution_str, ground_truth):
    if data_source in ["countdown", "openai/gsm8k"]:
        return float(solution_str == ground_truth)
    raise NotImplementedError
"""
PROJECT = {KEY: "env", "reward.custom_reward_function.path": None}


def scored(places: RunFolders, settings: dict[str, Any]) -> tuple[Tree, dict[str, Any], list[str]]:
    program = "verl.trainer.main_ppo"
    found = managers.take_unnamed(recipient(TREE, places, settings), program, PROJECT)
    return found.tree, found.settings, [item.what for item in found.remarks]


@pytest.mark.usefixtures("verl")
def test_the_class_in_a_program_that_knows_other_rows_scores(tmp_path: Path, imports: Path) -> None:
    tree, changed, said = scored(in_program(tmp_path, PROGRAM), {KEY: "naive"})
    assert (changed, said) == ({KEY: "of_the_run"}, ["changed"])
    assert registered(tree, imports, "of_the_run")(tokenizer=None, num_examine=0)([1, 3]) == [0.5, 1.5]


@pytest.mark.usefixtures("verl")
def test_a_class_that_has_a_function_of_its_own_is_not_given_verls(tmp_path: Path, imports: Path) -> None:
    def default_compute_score(item: int) -> int:
        raise AssertionError("verl's, which knows none of the checkout's rows")

    program = PROGRAM.replace(
        "tokenizer, num_examine):\n        pass",
        "tokenizer, num_examine, compute_score=None):\n"
        "        self.compute_score = compute_score or _select('countdown')",
    ).replace('[_select("countdown")(item)', "[self.compute_score(item)")
    assert program.count("compute_score") == 4
    tree, _, _ = scored(in_program(tmp_path, program), {KEY: "naive"})
    make = registered(tree, imports, "of_the_run")
    assert make(tokenizer=None, num_examine=0, compute_score=default_compute_score)([1, 3]) == [0.5, 1.5]
    assert make(tokenizer=None, num_examine=0, compute_score=lambda item: 8)([1]) == [8]


def test_the_plain_manager_is_in_every_project() -> None:
    assert managers.list_names({"p/vendored/workers/reward_manager/naive.py": "class NaiveRewardManager: ..."}) == {
        "naive"
    }


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("manager", ["naive", "dapo", None])
def test_scorers_that_know_other_rows_are_the_function(tmp_path: Path, imports: Path, manager: str | None) -> None:
    places = in_program(tmp_path, "# reward_fn=", **{"src/verl/utils/reward_score/__init__.py": SCORERS})
    tree, changed, _ = scored(places, {KEY: manager})
    assert changed == {"reward.custom_reward_function.path": "pkg_of_run/custom/verl_reward.py"}
    assert named.take_files(recipient(tree, places, changed)) == CopyResult(tree, [], {}), (
        "it is here, and is its own copy"
    )
    written(tree, imports)
    score = importlib.import_module("pkg_of_run.custom.verl_reward").compute_score
    assert score("countdown", "4", "4", extra_info={}, more=1) == 1.0


@pytest.mark.usefixtures("verl")
def test_what_the_run_names_scores(tmp_path: Path) -> None:
    below = in_program(tmp_path, "# reward_fn=", **{"src/verl/utils/reward_score/__init__.py": SCORERS})
    assert scored(below, {KEY: "mine"}) == (TREE, {}, [])
    assert scored(below, {"reward.custom_reward_function.path": "reward.py"}) == (TREE, {}, [])


@pytest.mark.usefixtures("verl")
def test_rows_that_the_release_knows_are_scored_by_the_project(tmp_path: Path) -> None:
    path = "verl/utils/reward_score/__init__.py"
    usual = "# Said by nobody else.\n" + source_of(NEWEST[-1]).read(path)
    places = in_program(tmp_path, "# reward_fn=", **{f"src/{path}": usual})
    assert scored(places, {KEY: "naive"}) == (TREE, {}, [])


@pytest.mark.usefixtures("verl")
def test_a_class_that_reads_the_config_gets_it_with_what_no_release_has(tmp_path: Path, imports: Path) -> None:
    omegaconf = pytest.importorskip("omegaconf")
    reads = CLASS.replace("compute_score=None):", "compute_score=None, config=None):\n        self.config = config", 1)
    tree, _, _ = scored(in_program(tmp_path, reads), {KEY: "naive"})
    written(tree, imports)
    (imports / "config").mkdir()
    (imports / "config/unknown.yaml").write_text("# kept\ntrainer.kind: best\n")
    config = omegaconf.OmegaConf.create({"trainer": {"logger": []}})
    made = registered(tree, imports)(tokenizer=None, num_examine=0, config=config)
    assert (made.config.trainer.kind, "kind" in config.trainer) == ("best", False)


def test_arguments_of_a_manager_that_the_plain_one_takes_the_place_of_are_left_out() -> None:
    naive = '@register("naive")\nclass Naive:\n    def __init__(self, tokenizer, num_examine): ...\n'
    file = File("pkg_of_run/vendored/naive.py", FileKind.VENDORED, naive.encode(), "verl/none.py")
    given = "reward.reward_kwargs.scale"
    project = recipient(Tree.of([*TREE, file]), RunFolders(()), {KEY: "remote", given: 2})
    assert managers.list_not_taken(project) == [given]


@pytest.mark.parametrize("name", ["prime", "remote"])
def test_managers_that_score_as_the_plain_one_does_are_that(name: str) -> None:
    changed, remarks = setting_repairs.settle(recipient(TREE, RunFolders(()), {KEY: name}), {}, {}, ())
    assert (changed, [item.what for item in remarks]) == ({KEY: "naive"}, ["changed"])


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    ("words", "release"),
    [("reward_model.reward_manager=dapo", "0.8.0"), ("reward_manager.name=dapo", "0.7.0")],
)
def test_a_manager_that_a_release_calls_by_two_names_is_the_one_that_is_meant(
    tmp_path: Path, words: str, release: str
) -> None:
    """0.7.0 has a setting that follows another, and a run both, of which it states one."""
    script = tmp_path / "run.sh"
    launch = "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b algorithm.adv_estimator=grpo"
    script.write_text(f"{launch} {words}\n")
    done = vextract(
        "new", tmp_path / "mine", "--verl", "0.7.0", "--from-verl-run", script, "--run-verl", release, "--offline"
    )
    assert done.code == 0, done.err
    written = (tmp_path / "mine/config/recipe/verl_run.yaml").read_text()
    assert "reward_manager: dapo\n" in written
    assert "name:" not in written


@pytest.mark.usefixtures("verl")
def test_a_copied_manager_is_the_one_by_both_names(tmp_path: Path) -> None:
    checkout = tmp_path / "fork"
    for path, text in {
        "verl/trainer/main_ppo.py": MAIN_WITH_A_CLASS,
        "verl/trainer/config/ppo_trainer.yaml": "data: {}\n",
        "run.sh": "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b algorithm.adv_estimator=grpo\n",
    }.items():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(text)
    done = vextract("new", tmp_path / "mine", "--verl", "0.7.0", "--from-verl-run", checkout / "run.sh", "--offline")
    assert done.code == 0, done.err
    written = (tmp_path / "mine/config/recipe/verl_run.yaml").read_text()
    assert "reward_manager: of_the_run\n" in written
    assert "name:" not in written


MAIN_WITH_A_CLASS = """
import torch


class RewardManager:
    def __init__(self, tokenizer, num_examine):
        self.tokenizer = tokenizer

    def __call__(self, data, return_dict=False):
        rewards = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
        for i in range(len(data)):
            rewards[i, -1] = 7.0
        return rewards


def main_task(config):
    tokenizer = None
    reward_fn = RewardManager(tokenizer=tokenizer, num_examine=0)
"""
