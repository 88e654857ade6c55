"""Reward managers and scorers of a run's checkout come along, and what else it changed of verl is said."""

import ast
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
from extractor.values.fingerprint import fingerprint, load_upstream_files
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import imported_from, put, written
from tests.releases import ALL, NEWEST, source_of

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


def test_a_class_that_registers_itself_is_imported(tmp_path: Path, imports: Path) -> None:
    helper = "def half(number):\n    return number / 2\n"
    folder = "verl/workers/reward_manager"
    inits = {f"{path}/__init__.py": "" for path in ("verl", "verl/workers", folder)}
    places = checkout(tmp_path, **inits, **{f"{folder}/mine.py": REGISTERED, f"{folder}/helpers.py": helper})
    taken = managers.take_named(recipient(TREE, places, {KEY: "mine"}))
    why = f"copied from {folder}/mine.py to pkg_of_run/custom/verl_reward_manager.py, with what it imports"
    assert [item.why for item in taken.remarks] == [why]
    assert registered(taken.tree, imports, "mine").__name__ == "Mine"


def test_one_that_cannot_be_imported_here_is_named(tmp_path: Path) -> None:
    tree, settings, said = scored(in_program(tmp_path, WAITS), {KEY: "naive"})
    assert (tree, settings, said) == (TREE, {}, ["to do"])
    # what nobody has is left
    assert managers.take_named(recipient(TREE, in_program(tmp_path), {KEY: "nobody-s"})) == CopyResult(TREE, [])


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


def taken_from(places: RunFolders, settings: dict[str, Any]) -> CopyResult:
    return managers.take_unnamed(recipient(TREE, places, settings), "verl.trainer.main_ppo", PROJECT)


def scored(places: RunFolders, settings: dict[str, Any]) -> tuple[Tree, dict[str, Any], list[str]]:
    found = taken_from(places, settings)
    return found.tree, found.settings, [item.what for item in found.remarks]


def test_the_class_in_a_program_that_knows_other_rows_scores(tmp_path: Path, imports: Path) -> None:
    tree, changed, said = scored(in_program(tmp_path, PROGRAM), {KEY: "naive"})
    assert (changed, said) == ({KEY: "of_the_run"}, ["changed"])
    assert registered(tree, imports, "of_the_run")(tokenizer=None, num_examine=0)([1, 3]) == [0.5, 1.5]


INIT = "verl/utils/reward_score/__init__.py"


def test_scorers_that_know_other_rows_are_the_function(tmp_path: Path, imports: Path) -> None:
    places = in_program(tmp_path, "# reward_fn=", **{f"src/{INIT}": SCORERS})
    tree, changed, _ = scored(places, {KEY: "dapo"})
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


NAIVE = "verl/workers/reward_manager/naive.py"
ACTOR, LOSSES = "verl/workers/actor/dp_actor.py", "verl/trainer/ppo/core_algos.py"
GSM8K = "verl/utils/reward_score/gsm8k.py"
CHANGED_CLASS = """
from verl.workers.reward_manager.registry import register


@register("naive")
class Shorter:
    def __init__(self, tokenizer, num_examine, size, end, judge=None, compute_score=None):
        self.given = (size, end, judge)

    def __call__(self, data, return_dict=False):
        return [item / self.given[0] for item in data]
"""
CHANGED_PROGRAM = """
def main(config, tokenizer):
    reward_manager_cls = choose(config)
    judge = start_a_judge(config)
    share = config.own.get("more", 0)
    reward_fn = reward_manager_cls(tokenizer=tokenizer, num_examine=0, size=share or 1, end="<end>", judge=judge)
"""


def test_every_file_of_a_release_is_known() -> None:
    for release in ALL:
        source = source_of(release)
        watched = [path for path in load_upstream_files() if path in source.files]
        assert {ACTOR, LOSSES, NAIVE} - set(watched) <= {ACTOR}, "the actor goes after 0.7.1"
        for path in watched:
            assert fingerprint(ast.parse(source.read(path))) in load_upstream_files()[path], (release, path)


def test_changed_files_are_named_in_one_line(tmp_path: Path) -> None:
    source = source_of("0.4.0")
    texts = {path: source.read(path) for path in (ACTOR, LOSSES, GSM8K)}
    places = checkout(tmp_path, **texts)
    assert managers.remark_on_changed(recipient(TREE, places, {}), ()) == []
    said = {path: f"{text}\nFURTHER = 1\n" for path, text in texts.items()}
    places = checkout(tmp_path, **said, **{"verl/trainer/ppo/own.py": "A = 1\n"})
    project = recipient(TREE, places, {})
    assert sorted(managers.find_changed(project)) == sorted(texts)
    (remark,) = managers.remark_on_changed(project, ("verl/utils/reward_score/",))
    assert remark.what == "not carried over"
    assert "trainer/ppo/core_algos.py, workers/actor/dp_actor.py" in remark.why
    assert "gsm8k" not in remark.why


def test_a_changed_class_scores_as_its_program_makes_it(tmp_path: Path, imports: Path) -> None:
    places = checkout(tmp_path, **{NAIVE: CHANGED_CLASS, "verl/trainer/main_ppo.py": CHANGED_PROGRAM})
    taken = taken_from(places, {KEY: "naive"})
    assert taken.settings == {KEY: "of_the_run"}
    assert taken.places[0] == NAIVE
    assert [item.what for item in taken.remarks] == ["changed", "to do"]
    assert "judge" in taken.remarks[1].why

    put(imports, {"config/unknown.yaml": "own.more: 2\n"})
    cls = registered(taken.tree, imports, "of_the_run")
    manager = cls(tokenizer=None, num_examine=0, config=OmegaConf.create({"own": {}}))
    assert manager.given == (2, "<end>", None)
    assert manager([1, 2]) == [0.5, 1.0]


def test_a_scorer_that_was_changed_comes_along(tmp_path: Path) -> None:
    source = source_of(NEWEST[-1])
    path = "verl/utils/reward_score/__init__.py"
    texts = {path: source.read(path), GSM8K: source.read(GSM8K)}
    assert taken_from(checkout(tmp_path, **texts), {}).settings == {}
    texts[GSM8K] += "\n\ndef half(score):\n    return score / 2\n"
    taken = taken_from(checkout(tmp_path, **texts), {})
    assert taken.settings == {"reward.custom_reward_function.path": "pkg_of_run/custom/verl_reward.py"}
    copied = {file.path: file.data.decode() for file in taken.tree}
    assert "def half" in copied[f"pkg_of_run/custom/from_run/{GSM8K}"]


def test_a_reward_file_without_the_named_function_is_said(tmp_path: Path) -> None:
    key = "reward.custom_reward_function"
    places = checkout(tmp_path, **{"own.py": "def other():\n    return 1\n"})
    taken = named.take_files(recipient(TREE, places, {f"{key}.path": "own.py", f"{key}.name": "mine"}))
    assert [item.why for item in taken.remarks if "it has no mine" in item.why]
