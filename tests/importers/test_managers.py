"""A reward manager that a run names and a project has not comes along with what it imports, and is called as it was."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from extractor.importers.runs import setting_repairs
from extractor.importers.runs.copied_code import managers, named
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject
from extractor.importers.runs.run_folders import RunFolders
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import imported, imported_from, put, written
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
    return RunFolders.of(put(folder / "fork", {"setup.py": "", **files}) / "run.sh", None)


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


def test_a_class_that_registers_itself_is_imported(tmp_path: Path, imports: Path) -> None:
    helper = "def half(number):\n    return number / 2\n"
    folder = "verl/workers/reward_manager"
    inits = {f"{path}/__init__.py": "" for path in ("verl", "verl/workers", folder)}
    places = checkout(tmp_path, **inits, **{f"{folder}/mine.py": REGISTERED, f"{folder}/helpers.py": helper})
    taken = managers.take_named(recipient(TREE, places, {KEY: "mine"}))
    why = f"copied from {folder}/mine.py to pkg_of_run/custom/verl_reward_manager.py, with what it imports"
    assert [item.why for item in taken.remarks] == [why]
    assert registered(taken.tree, imports, "mine").__name__ == "Mine"


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


def test_one_that_cannot_be_imported_here_is_named(tmp_path: Path) -> None:
    tree, settings, said = scored(in_program(tmp_path, WAITS), {KEY: "naive"})
    assert (tree, settings, said) == (TREE, {}, ["to do"])
    for name in ("prime", "nobody-s"):  # what a project has otherwise, or nobody has, is left
        assert managers.take_named(recipient(TREE, in_program(tmp_path), {KEY: name})) == CopyResult(TREE, [])


def test_what_nobody_has_is_put_aside() -> None:
    asked = {KEY: "mine", "algorithm.adv_estimator": "mine_too", "actor_rollout_ref.actor.policy_loss.loss_mode": "x"}
    before = {"algorithm.adv_estimator": "grpo", "actor_rollout_ref.actor.policy_loss.loss_mode": "vanilla"}
    project = recipient(Tree.of([]), RunFolders(()), asked)
    taken, aside = setting_repairs.put_aside(project, before)
    assert aside == asked
    assert taken.settings == {KEY: "naive", **before}
    assert [(item.key, item.what) for item in taken.remarks] == [
        (item.key, "to do") for item in setting_repairs.remark_on_unknown(project)
    ]
    assert list(setting_repairs.remark_on_unknown(recipient(Tree.of([]), RunFolders(()), {KEY: "prime"}))) == []


def test_arguments_that_a_manager_does_not_take_are_left_out() -> None:
    """Also where the plain one takes a manager's place."""
    for name, asked, parameters, left in (
        ("mine", "mine", "self, known=1", ["unknown"]),
        ("mine", "mine", "self, **given", []),
        ("naive", "remote", "self, tokenizer", ["known", "unknown"]),
    ):
        text = f'@register("{name}")\nclass Mine:\n    def __init__({parameters}):\n        pass\n'
        tree = Tree.of([*TREE, File("pkg_of_run/vendored/mine.py", FileKind.VENDORED, text.encode(), "verl/none.py")])
        keys = {f"reward.reward_kwargs.{argument}": 1 for argument in ("known", "unknown")}
        found = managers.list_not_taken(recipient(tree, RunFolders(()), {KEY: asked, **keys}))
        assert found == [f"reward.reward_kwargs.{argument}" for argument in left]


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


def test_the_class_in_a_program_that_knows_other_rows_scores(tmp_path: Path, imports: Path) -> None:
    tree, changed, said = scored(in_program(tmp_path, PROGRAM), {KEY: "naive"})
    assert (changed, said) == ({KEY: "of_the_run"}, ["changed"])
    assert registered(tree, imports, "of_the_run")(tokenizer=None, num_examine=0)([1, 3]) == [0.5, 1.5]


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


INIT = "verl/utils/reward_score/__init__.py"


def test_scorers_that_know_other_rows_are_the_function(tmp_path: Path, imports: Path) -> None:
    places = in_program(tmp_path, "# reward_fn=", **{f"src/{INIT}": SCORERS})
    for manager in ("naive", "dapo", None):
        tree, changed, _ = scored(places, {KEY: manager})
        assert changed == {"reward.custom_reward_function.path": "pkg_of_run/custom/verl_reward.py"}
        left = named.take_files(recipient(tree, places, changed))
        assert left == CopyResult(tree, [], {}), "it is here, and is its own copy"
    written(tree, imports)
    score = importlib.import_module("pkg_of_run.custom.verl_reward").compute_score
    assert score("countdown", "4", "4", extra_info={}, more=1) == 1.0
    # What the run names scores, and the project where its release knows the rows.
    assert scored(places, {KEY: "mine"}) == (TREE, {}, [])
    assert scored(places, {"reward.custom_reward_function.path": "reward.py"}) == (TREE, {}, [])
    usual = "# Said by nobody else.\n" + source_of(NEWEST[-1]).read(INIT)
    places = in_program(tmp_path, "# reward_fn=", **{f"src/{INIT}": usual})
    assert scored(places, {KEY: "naive"}) == (TREE, {}, [])


def test_a_class_that_reads_the_config_gets_it_with_what_no_release_has(tmp_path: Path, imports: Path) -> None:
    reads = CLASS.replace("compute_score=None):", "compute_score=None, config=None):\n        self.config = config", 1)
    tree, _, _ = scored(in_program(tmp_path, reads), {KEY: "naive"})
    written(tree, imports)
    put(imports, {"config/unknown.yaml": "# kept\ntrainer.kind: best\n"})
    config = OmegaConf.create({"trainer": {"logger": []}})
    made = registered(tree, imports)(tokenizer=None, num_examine=0, config=config)
    assert (made.config.trainer.kind, "kind" in config.trainer) == ("best", False)


def test_managers_that_score_as_the_plain_one_does_are_that() -> None:
    for name in ("prime", "remote"):
        changed, remarks = setting_repairs.repair_settings(recipient(TREE, RunFolders(()), {KEY: name}), {}, {}, ())
        assert (changed, [item.what for item in remarks]) == ({KEY: "naive"}, ["changed"])


def test_a_manager_that_a_release_calls_by_two_names_is_the_one_that_is_meant(tmp_path: Path) -> None:
    """0.7.0 has a setting that follows another, and a run both, of which it states one; or its class is copied."""
    launch = "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b algorithm.adv_estimator=grpo"
    main = {"verl/trainer/main_ppo.py": MAIN_WITH_A_CLASS, "verl/trainer/config/ppo_trainer.yaml": "data: {}\n"}
    for words, files, options, name in (
        ("reward_model.reward_manager=dapo", {}, ("--run-verl", "0.8.0"), "dapo"),
        ("reward_manager.name=dapo", {}, ("--run-verl", "0.7.0"), "dapo"),
        ("", main, (), "of_the_run"),
    ):
        run = put(tmp_path / f"fork-{words}", {**files, "run.sh": f"{launch} {words}\n"}) / "run.sh"
        made = imported(tmp_path / f"mine-{words}", run, "--package", "mine", "--verl", "0.7.0", *options)
        assert f"reward_manager: {name}\n" in made.recipe
        assert "name:" not in made.recipe


MAIN_WITH_A_CLASS = """
class RewardManager:
    def __init__(self, tokenizer, num_examine):
        self.tokenizer = tokenizer

    def __call__(self, data, return_dict=False):
        return 7.0


def main_task(config):
    reward_fn = RewardManager(tokenizer=None, num_examine=0)
"""
