"""A reward manager that a run names and a project has not comes along with what it imports, and is called as it was."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from extractor.importers.runs import startable
from extractor.importers.runs.files import Places, beside
from extractor.importers.runs.taken_over import estimators, managers, named_files, scorers, unregistered
from extractor.importers.runs.taken_over import registered as registration
from extractor.importers.runs.taken_over.recipient import Recipient, Taken
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
# As forks of releases without a registry have one: it takes less and returns less than those of today.
CHOOSES = """
import ray


def main(config):
    if config.name == "naive":
        manager = None
    elif config.name == "mine":
        from verl.workers.reward_manager import Mine
        manager = Mine
"""
CLASS = """
from verl.utils.reward_score import _default_compute_score
from verl.utils.reward_score.mine import half


class Mine:
    def __init__(self, tokenizer, num_examine, compute_score=None):
        self.compute_score = compute_score or _default_compute_score

    def __call__(self, data):
        return [half(self.compute_score(item)) for item in data]
"""
WAITS = "from ray.util import queue\n" + CLASS.replace("return [", "return queue.Queue() and [")
REGISTERED = """
from verl.workers.reward_manager.registry import register
from verl.workers.reward_manager.helpers import half


@register("mine")
class Mine:
    pass
"""


def checkout(folder: Path, **files: str) -> Places:
    root = folder / "fork"
    for path, text in {"setup.py": "", **files}.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return Places.of(root / "run.sh", None)


def chosen_by_name(folder: Path, **files: str) -> Places:
    packages = ("", "trainer/", "utils/", "utils/reward_score/", "workers/", "workers/reward_manager/")
    texts = {f"src/verl/{package}__init__.py": "" for package in packages}
    texts["src/verl/workers/reward_manager/__init__.py"] = "from .mine import Mine\n"
    texts["src/verl/workers/reward_manager/mine.py"] = CLASS
    texts["src/verl/trainer/main_ppo.py"] = CHOOSES
    texts["src/verl/utils/reward_score/__init__.py"] = "def _default_compute_score(item):\n    return item + 1\n"
    texts["src/verl/utils/reward_score/mine.py"] = "def half(number):\n    return number / 2\n"
    return checkout(folder, **{**texts, **files})


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from imported_from(tmp_path / "project", "pkg_of_run", monkeypatch)


def take(places: Places, name: str = "mine") -> tuple[Tree, list[str]]:
    taken = managers.take(recipient(TREE, places, {KEY: name}))
    return taken.tree, [f"{item.what}: {item.why}" for item in taken.remarks]


def recipient(tree: Tree, places: Places, settings: dict[str, Any]) -> Recipient:
    return Recipient(tree, "pkg_of_run", source_of(NEWEST[-1]), places, settings)


def registered(tree: Tree, folder: Path, name: str = "mine") -> Any:
    written(tree, folder)
    importlib.import_module("pkg_of_run.custom.reward_manager")
    return importlib.import_module("pkg_of_run.vendored.workers.reward_manager.registry").MANAGERS[name]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("chooses", ["trainer/main_ppo.py", "trainer/ppo/reward.py"])
def test_a_class_that_a_program_chooses_is_called_as_a_project_does(
    tmp_path: Path, imports: Path, chooses: str
) -> None:
    tree, said = take(chosen_by_name(tmp_path, **{"src/verl/trainer/main_ppo.py": "", f"src/verl/{chooses}": CHOOSES}))
    assert [line.partition(":")[0] for line in said] == ["changed"]
    manager = registered(tree, imports)(tokenizer=None, num_examine=0, compute_score=None, reward_fn_key="data_source")
    assert manager([1, 3]) == [1.0, 2.0]
    assert manager([1], return_dict=True) == {"reward_tensor": [1.0], "reward_extra_info": {}}
    _, remarks = startable.settle(recipient(tree, Places(()), {KEY: "mine"}), {}, {}, ())
    assert remarks == []


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
    text = f"{imported}{CLASS.partition('        return [half')[0]}{returns}"
    tree, _ = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": text}))
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]).tolist() == [[1.0, 1.0]]


@pytest.mark.usefixtures("verl")
def test_what_a_program_hands_over_scores(tmp_path: Path, imports: Path) -> None:
    program = f"from verl.utils.reward_score.mine import tenfold\n{CHOOSES}\n\nrun_ppo(None, tenfold)\n"
    scorer = "def half(number):\n    return number / 2\n\n\ndef tenfold(item):\n    return 10 * item\n"
    files = {"src/verl/trainer/main_ppo.py": program, "src/verl/utils/reward_score/mine.py": scorer}
    tree, _ = take(chosen_by_name(tmp_path, **files))
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]) == [5.0]


@pytest.mark.usefixtures("verl")
def test_a_class_that_registers_itself_is_imported(tmp_path: Path, imports: Path) -> None:
    helper = "def half(number):\n    return number / 2\n"
    folder = "verl/workers/reward_manager"
    inits = {f"{path}/__init__.py": "" for path in ("verl", "verl/workers", folder)}
    places = checkout(tmp_path, **inits, **{f"{folder}/mine.py": REGISTERED, f"{folder}/helpers.py": helper})
    tree, said = take(places)
    assert said == [
        f"changed: copied from {folder}/mine.py to pkg_of_run/custom/verl_reward_manager.py, with what it imports"
    ]
    assert registered(tree, imports).__name__ == "Mine"


@pytest.mark.usefixtures("verl")
def test_a_class_of_a_registry_of_its_own_is_registered_with_the_projects(tmp_path: Path, imports: Path) -> None:
    """Its package imports others, whose names the project has something under already."""
    folder = "verl/experimental/loops"
    inits = {f"{path}/__init__.py": "" for path in ("verl", "verl/experimental")}
    inits[f"{folder}/__init__.py"] = "from .known import Known\nfrom .mine import Mine\n"
    both = "from .registry import register\n"
    both += "from verl.workers.reward_manager.registry import register as register_legacy\n"
    files = {f"{folder}/registry.py": REGISTRY, f"{folder}/mine.py": f"{both}@register('mine')\nclass Mine: ...\n"}
    files[f"{folder}/known.py"] = f"{both}@register('known')\n@register_legacy('known')\nclass Known: ...\n"
    theirs = "from .workers.reward_manager.registry import register\n\n\n@register('known')\nclass Known: ...\n"
    own = File("pkg_of_run/vendored/reward_known.py", FileKind.VENDORED, theirs.encode(), "verl/none.py")
    project = recipient(Tree.of([*TREE, own]), checkout(tmp_path, **inits, **files), {KEY: "mine"})
    tree = managers.take(project).tree
    written(tree, imports)
    known = importlib.import_module("pkg_of_run.vendored.reward_known").Known
    assert registered(tree, imports).__name__ == "Mine"
    assert registered(tree, imports, "known") is known


@pytest.mark.usefixtures("verl")
def test_a_class_is_called_with_the_columns_that_it_takes(tmp_path: Path, imports: Path) -> None:
    takes = CLASS.replace("(self, data)", "(self, data, data_sources)").replace("in data]", "in data_sources]")
    tree, said = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": takes}))
    assert [line.partition(":")[0] for line in said] == ["changed"]
    manager = registered(tree, imports)(tokenizer=None, num_examine=0)
    assert manager(SimpleNamespace(non_tensor_batch={"data_source": [1, 3]}, meta_info={})) == [1.0, 2.0]


@pytest.mark.usefixtures("verl")
def test_a_class_may_take_the_config_first_and_call_its_batch_otherwise(tmp_path: Path, imports: Path) -> None:
    omegaconf = pytest.importorskip("omegaconf")
    takes = CLASS.replace("(self, data)", "(self, config, rows)").replace("in data]", "in config.some + rows.rows]")
    tree, said = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": takes}))
    assert [line.partition(":")[0] for line in said] == ["changed"]
    manager = registered(tree, imports)(tokenizer=None, num_examine=0, config=omegaconf.OmegaConf.create({"some": [1]}))
    assert manager(SimpleNamespace(non_tensor_batch={}, meta_info={}, rows=[3])) == [1.0, 2.0]


@pytest.mark.usefixtures("verl")
def test_a_class_may_take_whatever_it_is_called_with(tmp_path: Path, imports: Path) -> None:
    takes = CLASS.replace("(self, data)", "(self, *args, **more)").replace("in data]", "in args[0].rows]")
    tree, _ = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": takes}))
    manager = registered(tree, imports)(tokenizer=None, num_examine=0)
    assert manager(SimpleNamespace(non_tensor_batch={}, meta_info={}, rows=[3])) == [2.0]


@pytest.mark.usefixtures("verl")
def test_a_class_that_hands_on_what_it_is_made_with_is_made_without_the_config(tmp_path: Path, imports: Path) -> None:
    takes = CLASS.replace("compute_score=None):", "compute_score=None, **more):\n        self.more = more")
    tree, _ = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": takes}))
    assert registered(tree, imports)(tokenizer=None, num_examine=0, config=None, cost=1).more == {"cost": 1}


@pytest.mark.usefixtures("verl")
def test_what_only_its_own_trainer_calls_a_manager_with_is_named(tmp_path: Path) -> None:
    asks = CLASS.replace("(self, data)", "(self, data, checked, step, *, judged, return_dict=False)")
    _, said = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": asks}))
    assert said[1:] == ["to do: Mine is called with checked, judged, which only its own trainer hands over"]


@pytest.mark.usefixtures("verl")
def test_one_that_cannot_be_imported_here_is_named(tmp_path: Path) -> None:
    own = {"src/verl/workers/reward_manager/mine.py": WAITS}
    tree, said = take(chosen_by_name(tmp_path, **own))
    assert tree == TREE
    assert said[0].startswith("to do: src/verl/trainer/main_ppo.py has it, and cannot be imported here:")
    assert "ray: no project has it" in said[0]


@pytest.mark.usefixtures("verl")
def test_another_of_the_same_name_is_tried_where_one_cannot_be_imported(tmp_path: Path, imports: Path) -> None:
    first = "src/recipe/mine/main_mine.py"
    chooses = CHOOSES.replace("from verl.workers.reward_manager import Mine", "from recipe.mine.wants import Mine")
    wants = WAITS
    places = chosen_by_name(tmp_path, **{first: chooses, "src/recipe/mine/wants.py": wants})
    tree, said = take(places)
    assert [line.partition(" from ")[2].partition(" ")[0] for line in said] == ["src/verl/trainer/main_ppo.py"]
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]) == [1.0]


BROKEN = "def half(:\n_default_compute_score\n"


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    "file",
    [
        "src/verl/trainer/main_ppo.py",
        "src/verl/workers/reward_manager/__init__.py",
        "src/verl/workers/reward_manager/mine.py",
        "src/verl/utils/reward_score/__init__.py",
        "src/verl/utils/reward_score/mine.py",
    ],
)
@pytest.mark.parametrize(
    "text", [BROKEN, f"{BROKEN}# @register('mine') if name == 'mine':\n", "\x00", "-" * 5000 + "1"]
)
def test_a_checkout_may_have_files_that_are_no_python(tmp_path: Path, file: str, text: str) -> None:
    places = chosen_by_name(tmp_path, **{file: text})
    below = Places((*places.folders, tmp_path / "fork/src"))
    chosen = {KEY: "mine", "algorithm.adv_estimator": "own", "actor_rollout_ref.actor.policy_loss.loss_mode": "own"}
    for part in (managers, registration, estimators):
        part.take(recipient(TREE, below, chosen))
    for manager in ("naive", "dapo"):
        scored(below, {KEY: manager})


PARALLEL = """
import ray
from ray.exceptions import GetTimeoutError


@ray.remote
def score(item):
    return item + 1


@ray.remote(num_cpus=1)
class Worker:
    def double(self, item):
        return 2 * item


class Mine:
    def __init__(self, tokenizer, num_examine):
        self.worker = Worker.options(name="worker").remote()

    def __call__(self, data):
        try:
            return ray.get([score.remote(item) for item in data], timeout=1) + [ray.get(self.worker.double.remote(2))]
        except (GetTimeoutError, ray.exceptions.RayTaskError):
            return []
"""


@pytest.mark.usefixtures("verl")
def test_what_scores_in_parallel_scores_in_the_process(tmp_path: Path, imports: Path) -> None:
    tree, said = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": PARALLEL}))
    assert [line.partition(":")[0] for line in said] == ["changed"]
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1, 3]) == [2, 4, 4]
    assert "ray" not in sys.modules


@pytest.mark.usefixtures("verl")
def test_what_a_module_that_cannot_be_had_imports_is_not_left_behind(tmp_path: Path) -> None:
    later = "def half(number):\n    from far.away import more\n    return more(number) / 2\n"
    far = "from far.near import less\nfrom ray.util import queue\nWAITING = queue.Queue()\n"
    own = {"src/verl/utils/reward_score/mine.py": later, "far/away.py": far, "far/near.py": "less = 1\n"}
    tree, _ = take(chosen_by_name(tmp_path, **own))
    paths = [file.path for file in tree]
    assert "pkg_of_run/custom/from_run/verl/utils/reward_score/mine.py" in paths
    assert [path for path in paths if "/far/" in path] == []


def test_what_nobody_has_is_put_aside() -> None:
    asked = {KEY: "mine", "algorithm.adv_estimator": "mine_too", "actor_rollout_ref.actor.policy_loss.loss_mode": "x"}
    before = {"algorithm.adv_estimator": "grpo", "actor_rollout_ref.actor.policy_loss.loss_mode": "vanilla"}
    project = recipient(Tree.of([]), Places(()), asked)
    taken, aside = unregistered.put_aside(project, before)
    assert aside == asked
    assert taken.settings == {KEY: "naive", **before}
    assert [(item.key, item.what) for item in taken.remarks] == [
        (item.key, "to do") for item in unregistered.remarks(project)
    ]
    assert list(unregistered.remarks(recipient(Tree.of([]), Places(()), {KEY: "prime"}))) == []


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("name", ["prime", "nobody-s"])
def test_what_a_project_has_otherwise_or_nobody_has_is_left(tmp_path: Path, name: str) -> None:
    assert take(chosen_by_name(tmp_path), name) == (TREE, [])


@pytest.mark.usefixtures("verl")
def test_a_scorer_of_an_earlier_name_is_copied_for_a_class_that_imports_none(tmp_path: Path, imports: Path) -> None:
    plain = CLASS.replace("from verl.utils.reward_score import _default_compute_score\n", "")
    plain = plain.replace("or _default_compute_score", "")
    tree, _ = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": plain}))
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]) == [1.0]


@pytest.mark.usefixtures("verl")
def test_a_class_that_falls_back_to_a_function_of_its_own_is_given_no_other(tmp_path: Path, imports: Path) -> None:
    own = CLASS.replace("import half", "import half, with_more").replace("or _default_compute_score", "or with_more")
    own = own.replace("self.compute_score(item)", "self.compute_score(item, ability=1)")
    mine = (
        "def half(number):\n    return number / 2\n\n\ndef with_more(item, ability):\n    return item + 5 * ability\n"
    )
    folder = "src/verl/utils/reward_score"
    tree, _ = take(
        chosen_by_name(tmp_path, **{f"{folder}/mine.py": mine, "src/verl/workers/reward_manager/mine.py": own})
    )
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]) == [3.0]


@pytest.mark.parametrize(("parameters", "left"), [("self, known=1", ["unknown"]), ("self, **given", [])])
def test_arguments_that_a_manager_does_not_take_are_left_out(parameters: str, left: list[str]) -> None:
    text = f'@register("mine")\nclass Mine:\n    def __init__({parameters}):\n        pass\n'
    tree = Tree.of([File("pkg_of_run/custom/mine.py", FileKind.HOOK, text.encode())])
    keys = {f"reward.reward_kwargs.{name}": 1 for name in ("known", "unknown")}
    found = managers.not_taken(recipient(tree, Places(()), {KEY: "mine", **keys}))
    assert found == [f"reward.reward_kwargs.{name}" for name in left]


@pytest.mark.usefixtures("verl")
def test_what_a_trainer_reads_for_its_class_is_handed_to_it(tmp_path: Path, imports: Path) -> None:
    own = CLASS.replace("compute_score=None):", "threshold, compute_score=None):\n        self.threshold = threshold")
    places = chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": own})
    tree, _ = take(places)
    named = File(
        "pkg_of_run/settings/reward_keys.py", FileKind.TEMPLATE, b'MANAGER_ARGUMENTS = "reward.reward_kwargs"\n'
    )
    unknown = ("reward_model.threshold", "reward_model.other", "threshold", "trainer.threshold")
    found = managers.handed_over(recipient(Tree.of([*tree, named]), places, {KEY: "mine"}), unknown)
    assert found == {"reward_model.threshold": "reward.reward_kwargs.threshold"}
    assert registered(tree, imports)(tokenizer=None, num_examine=0, threshold=0.5).threshold == 0.5


@pytest.mark.usefixtures("verl")
def test_a_class_without_a_registry_is_made_with_what_its_program_hands_it(
    tmp_path: Path, imports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = CLASS.replace("compute_score=None):", "url, topk, compute_score=None):\n        self.given = (url, topk)")
    makes = """
        config.retriever.url = os.environ.get("RETRIEVER_URL", "nowhere")
        manager = Mine(
            tokenizer=None,
            num_examine=0,
            url=config.retriever.url,
            topk=config.retriever.topk if hasattr(config, "retriever") else 1,
        )
"""
    program = f"{CHOOSES}{makes}"
    files = {"src/verl/trainer/main_ppo.py": program, "src/verl/workers/reward_manager/mine.py": own}
    taken = managers.take(recipient(TREE, chosen_by_name(tmp_path, **files), {KEY: "mine"}))
    assert "retriever" in {name.partition(".")[0] for name in taken.reads}
    made = registered(taken.tree, imports)
    config = OmegaConf.create({"retriever": {"topk": 100}})
    assert made(tokenizer=None, num_examine=0, config=config).given == ("nowhere", 100)
    monkeypatch.setenv("RETRIEVER_URL", "http://here")
    assert made(tokenizer=None, num_examine=0, config=config).given == ("http://here", 100)


@pytest.mark.usefixtures("verl")
def test_what_a_program_makes_its_class_with_of_settings_follows_these(tmp_path: Path) -> None:
    own = CLASS.replace("compute_score=None):", "n, score_range, width, compute_score=None):")
    makes = """
        def load_reward_manager(config, tokenizer, num_examine, **reward_kwargs):
            if num_examine == 0:
                reward_kwargs["n"] = config.actor_rollout_ref.rollout.n
            reward_kwargs["width"] = len(tokenizer)
            reward_manager_cls = get_reward_manager_cls(config.name)
            return reward_manager_cls(tokenizer=tokenizer, score_range=config.reward_model.range, **reward_kwargs)
        """
    files = {"reward_manager/mine.py": own.replace("class Mine", "@register('mine')\nclass Mine")}
    files = {f"verl/workers/{path}": text for path, text in files.items()}
    places = checkout(tmp_path, **files, **{"verl/trainer/ppo/reward.py": dedent(makes), "verl/__init__.py": ""})
    text = b'MANAGER_ARGUMENTS = "reward.reward_kwargs"\n'
    named = File("pkg_of_run/settings/reward_keys.py", FileKind.TEMPLATE, text)
    copy = File("pkg_of_run/custom/mine.py", FileKind.HOOK, files["verl/workers/reward_manager/mine.py"].encode())
    settings = {KEY: "mine", "actor_rollout_ref.rollout.n": 4}
    found = managers.made_of_settings(recipient(Tree.of([*TREE, named, copy]), places, settings))
    assert found == {"reward.reward_kwargs.n": "${actor_rollout_ref.rollout.n}"}


@pytest.mark.usefixtures("verl")
def test_a_registered_class_finds_what_no_release_has_in_its_config(tmp_path: Path, imports: Path) -> None:
    omegaconf = pytest.importorskip("omegaconf")
    folder = "verl/workers/reward_manager"
    inits = {f"{path}/__init__.py": "" for path in ("verl", "verl/workers", folder)}
    reads = "class Mine:\n    def __init__(self, tokenizer, config):\n        self.kind = config.trainer.get('kind')\n"
    text = REGISTERED.replace("from verl.workers.reward_manager.helpers import half\n", "")
    places = checkout(tmp_path, **inits, **{f"{folder}/mine.py": text.replace("class Mine:\n    pass\n", reads)})
    tree, _ = take(places)
    asked = ("trainer.kind", "actor.tokenizer", "trainer.other")
    assert managers.read_by_copy(recipient(tree, places, {KEY: "mine"}), asked) == {"trainer.kind"}
    made = registered(tree, imports)
    (imports / "config").mkdir()
    (imports / "config/unknown.yaml").write_text("trainer.kind: best\n")
    config = omegaconf.OmegaConf.create({"trainer": {"logger": []}})
    assert made(None, config).kind == made(tokenizer=None, config=config).kind == "best"


@pytest.mark.usefixtures("verl")
def test_a_text_file_that_a_copied_module_opens_comes_along(tmp_path: Path, imports: Path) -> None:
    helper = (
        "import os\n\nwith open(os.path.join(os.path.dirname(__file__), 'data/weight')) as file:\n"
        "    WEIGHT = float(file.read())\n\n\ndef half(number):\n    return number * WEIGHT\n"
    )
    below = "src/verl/utils/reward_score"
    files = {f"{below}/mine.py": helper, f"{below}/data/weight": "0.5", f"{below}/data/other": "1"}
    tree, _ = take(chosen_by_name(tmp_path, **files))
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]) == [1.0]
    assert not [file.path for file in tree if file.path.endswith("other")]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("joined", ["os.path.join(HERE, '..', 'prompts')", "Path(HERE) / 'prompts'"])
def test_a_folder_of_text_files_that_a_copied_module_names_comes_along(
    tmp_path: Path, imports: Path, joined: str
) -> None:
    """Beside the module, or beside its own folder, which it is named from by two points."""
    helper = (
        "import os\nfrom pathlib import Path\n\nHERE = os.path.dirname(os.path.abspath(__file__))\n"
        f"PROMPTS = {joined}\n\n\ndef half(number):\n"
        "    return number * float(open(os.path.join(PROMPTS, f'{int(number > 0)}.txt')).read())\n"
    )
    utils = "src/verl/utils"
    folder = f"{utils}/prompts" if "'..'" in joined else f"{utils}/reward_score/prompts"
    files = {f"{utils}/reward_score/mine.py": helper, f"{folder}/1.txt": "0.25", f"{folder}/deeper/code.py": ""}
    tree, _ = take(chosen_by_name(tmp_path, **files))
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1]) == [0.5]
    assert not [file.path for file in tree if file.path.endswith("code.py")]


@pytest.mark.parametrize("name", ["../secrets", "linked"])
def test_a_folder_outside_the_checkout_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/key.txt").write_text("private")
    root = tmp_path / "fork"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path / "secrets")
    text = f"import os\nPLACE = os.path.join(os.path.dirname(__file__), '{name}')\n"
    assert list(beside.opened(text, root / "reward.py", {}, root)) == []
    assert list(beside.opened(text, root / "reward.py", {}, tmp_path)) == [(f"{name}/key.txt", "private")]


@pytest.mark.usefixtures("verl")
def test_a_class_that_is_called_with_the_step_and_returns_more_is_adapted(tmp_path: Path, imports: Path) -> None:
    own = CLASS.replace("def __call__(self, data):", "def __call__(self, data, step):")
    own = own.replace("for item in data]", "for item in data], [step]")
    tree, _ = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": own}))
    assert registered(tree, imports)(tokenizer=None, num_examine=0)([1, 3]) == [1.0, 2.0]


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


def scored(places: Places, settings: dict[str, Any]) -> tuple[Tree, dict[str, Any], list[str]]:
    program = "verl.trainer.main_ppo"
    found = scorers.take(recipient(TREE, places, settings), program, PROJECT)
    return found.tree, found.settings, [item.what for item in found.remarks]


@pytest.mark.usefixtures("verl")
def test_the_class_in_a_program_that_knows_other_rows_scores(tmp_path: Path, imports: Path) -> None:
    places = chosen_by_name(tmp_path, **{"src/verl/trainer/main_ppo.py": PROGRAM})
    below = Places((*places.folders, tmp_path / "fork/src"))
    tree, changed, said = scored(below, {KEY: "naive"})
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
    places = chosen_by_name(tmp_path, **{"src/verl/trainer/main_ppo.py": program})
    tree, _, _ = scored(Places((*places.folders, tmp_path / "fork/src")), {KEY: "naive"})
    make = registered(tree, imports, "of_the_run")
    assert make(tokenizer=None, num_examine=0, compute_score=default_compute_score)([1, 3]) == [0.5, 1.5]
    assert make(tokenizer=None, num_examine=0, compute_score=lambda item: 8)([1]) == [8]


@pytest.mark.usefixtures("verl")
def test_a_class_that_its_program_makes_with_a_section_finds_that(tmp_path: Path, imports: Path) -> None:
    program = PROGRAM.replace(
        "tokenizer, num_examine):\n        pass",
        "tokenizer, num_examine, config=None):\n        self.worth = config.curious.worth, config.get('trainer')",
    ).replace("tokenizer=None, num_examine=0)", "tokenizer=None, num_examine=0, config=config.reward_model)")
    assert program.count("config.reward_model") == 1
    places = chosen_by_name(tmp_path, **{"src/verl/trainer/main_ppo.py": program})
    below = Places((*places.folders, tmp_path / "fork/src"))
    found = scorers.take(recipient(TREE, below, {KEY: "naive"}), "verl.trainer.main_ppo", PROJECT)
    assert {"reward_model.curious.worth", "reward_model.trainer"} <= set(found.reads)
    make = registered(found.tree, imports, "of_the_run")
    unknown = imports / "config" / "unknown.yaml"
    unknown.parent.mkdir()
    unknown.write_text("reward_model.curious.worth: 3\nother.curious.worth: 4\n")
    for config in ({"trainer": {"n": 1}}, {"trainer": {"n": 1}, "reward_model": {"enable": False}}):
        assert make(tokenizer=None, num_examine=0, config=OmegaConf.create(config)).worth == (3, None)


def test_the_plain_manager_is_in_every_project() -> None:
    assert managers.names({"p/vendored/workers/reward_manager/naive.py": "class NaiveRewardManager: ..."}) == {"naive"}


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("manager", ["naive", "dapo", None])
def test_scorers_that_know_other_rows_are_the_function(tmp_path: Path, imports: Path, manager: str | None) -> None:
    places = chosen_by_name(tmp_path, **{"src/verl/utils/reward_score/__init__.py": SCORERS})
    tree, changed, _ = scored(Places((*places.folders, tmp_path / "fork/src")), {KEY: manager})
    assert changed == {"reward.custom_reward_function.path": "pkg_of_run/custom/verl_reward.py"}
    assert named_files.take(recipient(tree, places, changed)) == Taken(tree, [], {}), "it is here, and is its own copy"
    written(tree, imports)
    score = importlib.import_module("pkg_of_run.custom.verl_reward").compute_score
    assert score("countdown", "4", "4", extra_info={}, more=1) == 1.0


@pytest.mark.usefixtures("verl")
def test_what_the_run_names_scores(tmp_path: Path) -> None:
    places = chosen_by_name(tmp_path, **{"src/verl/utils/reward_score/__init__.py": SCORERS})
    below = Places((*places.folders, tmp_path / "fork/src"))
    assert scored(below, {KEY: "mine"}) == (TREE, {}, [])
    assert scored(below, {"reward.custom_reward_function.path": "reward.py"}) == (TREE, {}, [])


@pytest.mark.usefixtures("verl")
def test_a_manager_that_the_checkout_registers_scores_by_its_scorers(tmp_path: Path) -> None:
    """verl hands every manager its default function, which is the checkout's own there."""
    own = REGISTERED.replace("    pass", "    def __init__(self, tokenizer, num_examine, compute_score=None): ...")
    texts = {"src/verl/utils/reward_score/__init__.py": SCORERS, "src/verl/workers/reward_manager/mine.py": own}
    places = chosen_by_name(tmp_path, **texts)
    below = Places((*places.folders, tmp_path / "fork/src"))
    _, changed, _ = scored(below, {KEY: "mine"})
    assert changed == {"reward.custom_reward_function.path": "pkg_of_run/custom/verl_reward.py"}
    assert scored(below, {KEY: "others"}) == (TREE, {}, []), "which the checkout does not register"


@pytest.mark.usefixtures("verl")
def test_the_projects_own_scorer_is_not_handed_over_as_one_that_somebody_named(tmp_path: Path, imports: Path) -> None:
    def default_compute_score(item: int) -> int:
        raise AssertionError("verl's, which knows none of the checkout's rows")

    tree, _ = take(chosen_by_name(tmp_path))
    make = registered(tree, imports)
    assert make(tokenizer=None, num_examine=0, compute_score=default_compute_score)([1, 3]) == [1.0, 2.0]
    assert make(tokenizer=None, num_examine=0, compute_score=lambda item: 8)([1]) == [4.0]


@pytest.mark.usefixtures("verl")
def test_rows_that_the_release_knows_are_scored_by_the_project(tmp_path: Path) -> None:
    path = "verl/utils/reward_score/__init__.py"
    usual = "# Said by nobody else.\n" + source_of(NEWEST[-1]).read(path)
    places = chosen_by_name(tmp_path, **{f"src/{path}": usual})
    assert scored(Places((*places.folders, tmp_path / "fork/src")), {KEY: "naive"}) == (TREE, {}, [])


# What the scorers take besides a row: the class that hands it over comes along, and is called as a project calls one.
MORE = SCORERS.replace("ground_truth):", "ground_truth, prompt_str):").replace(
    "return float(", "return len(prompt_str) * ("
)
HANDS = """
from verl.utils.reward_score import _default_compute_score


class Plain:
    def __init__(self, tokenizer, num_examine, compute_score=None):
        self.compute_score = compute_score or _default_compute_score

    def __call__(self, data):
        return [self.compute_score("countdown", item, "4"{more}) for item in data]
"""


@pytest.mark.usefixtures("verl")
def test_scorers_that_take_more_than_the_row_are_called_by_the_class_that_hands_it_over(
    tmp_path: Path, imports: Path
) -> None:
    files = {
        "src/verl/utils/reward_score/__init__.py": MORE,
        "src/verl/workers/reward_manager/naive.py": source_of("0.4.0").read("verl/workers/reward_manager/naive.py"),
        "src/verl/workers/reward_manager/other.py": HANDS.format(more=', prompt_str="ab"'),
    }
    places = chosen_by_name(tmp_path, **files)
    tree, changed, said = scored(Places((*places.folders, tmp_path / "fork/src")), {KEY: "naive"})
    assert (changed, said) == ({KEY: "of_the_run"}, ["changed"])
    assert registered(tree, imports, "of_the_run")(tokenizer=None, num_examine=0)(["4", "5"]) == [2, 0]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("hands", [", width=3", ""])
def test_a_function_that_takes_more_is_called_by_the_class_that_hands_it_over(
    tmp_path: Path, imports: Path, hands: str
) -> None:
    own = "def scores(data_source, solution_str, ground_truth, width, extra_info=None):\n    return width\n"
    files = {
        "src/verl/workers/reward_manager/other.py": HANDS.format(more=hands),
        "src/rewards.py": own,
    }
    places = Places((*chosen_by_name(tmp_path, **files).folders, tmp_path / "fork/src"))
    settings = {KEY: "naive", f"{FUNCTION}.path": "/home/me/fork/src/rewards.py", f"{FUNCTION}.name": "scores"}
    tree, changed, _ = scored(places, settings)
    assert changed == ({KEY: "of_the_run"} if hands else {})
    if hands:
        manager = registered(tree, imports, "of_the_run")
        assert manager(tokenizer=None, num_examine=0, compute_score=lambda *_, width: width)(["x"]) == [3]
    assert scored(places, {**settings, f"{FUNCTION}.reward_kwargs.width": 2}) == (TREE, {}, [])


@pytest.mark.usefixtures("verl")
def test_a_class_that_reads_the_config_gets_it_with_what_no_release_has(tmp_path: Path, imports: Path) -> None:
    omegaconf = pytest.importorskip("omegaconf")
    reads = CLASS.replace("compute_score=None):", "compute_score=None, config=None):\n        self.config = config", 1)
    tree, _ = take(chosen_by_name(tmp_path, **{"src/verl/workers/reward_manager/mine.py": reads}))
    written(tree, imports)
    (imports / "config").mkdir()
    (imports / "config/unknown.yaml").write_text("# kept\ntrainer.kind: best\n")
    config = omegaconf.OmegaConf.create({"trainer": {"logger": []}})
    made = registered(tree, imports)(tokenizer=None, num_examine=0, config=config)
    assert (made.config.trainer.kind, "kind" in config.trainer) == ("best", False)


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("folder", ["verl/workers/reward_manager", "verl/experimental/reward"])
def test_a_class_of_the_checkouts_own_is_no_plain_one_whatever_it_is_called(tmp_path: Path, folder: str) -> None:
    """Upstream has had managers of these names that score as the plain one does, elsewhere."""
    text = REGISTERED.replace("mine", "remote").replace("from verl.workers.reward_manager.helpers import half\n", "")
    parts = Path(folder).parts
    inits = {f"{'/'.join(parts[:number])}/__init__.py": "" for number in range(1, len(parts) + 1)}
    project = recipient(TREE, checkout(tmp_path, **inits, **{f"{folder}/remote.py": text}), {KEY: "remote"})
    said = [remark.what for remark in managers.take(project).remarks]
    assert said == (["changed"] if folder.endswith("manager") else [])


def test_arguments_of_a_manager_that_the_plain_one_takes_the_place_of_are_left_out() -> None:
    naive = '@register("naive")\nclass Naive:\n    def __init__(self, tokenizer, num_examine): ...\n'
    file = File("pkg_of_run/vendored/naive.py", FileKind.VENDORED, naive.encode(), "verl/none.py")
    given = "reward.reward_kwargs.scale"
    project = recipient(Tree.of([*TREE, file]), Places(()), {KEY: "remote", given: 2})
    assert managers.not_taken(project) == [given]


@pytest.mark.parametrize("name", ["prime", "remote"])
def test_managers_that_score_as_the_plain_one_does_are_that(name: str) -> None:
    changed, remarks = startable.settle(recipient(TREE, Places(()), {KEY: name}), {}, {}, ())
    assert (changed, [item.what for item in remarks]) == ({KEY: "naive"}, ["changed"])


def test_values_that_stand_for_none_at_all() -> None:
    clip = "actor_rollout_ref.actor.clip_ratio"
    metric = "algorithm.filter_groups.metric"
    project = {
        "trainer.total_epochs": 3,
        metric: "acc",
        "trainer.val_only": False,
        clip: 0.2,
        f"{clip}_low": 0.2,
        f"{clip}_high": 0.2,
    }
    settings = {"trainer.total_epochs": 0, metric: None, clip: 0.1, f"{clip}_low": -1, f"{clip}_high": 0.3}
    changed, remarks = startable.settle(recipient(TREE, Places(()), settings), project, {}, ())
    assert changed == {"trainer.total_epochs": 1, "trainer.val_only": True, metric: "seq_reward", f"{clip}_low": 0.1}
    assert [item.what for item in remarks] == ["changed", "changed"]


@pytest.mark.parametrize(("only_validates", "steps"), [(False, 1), (True, None)])
def test_a_run_that_has_no_steps_takes_one_unless_it_only_validates(only_validates: bool, steps: int | None) -> None:
    project = {"trainer.val_only": False, "trainer.total_training_steps": None}
    settings = {"trainer.val_only": only_validates, "trainer.total_training_steps": -1}
    changed, remarks = startable.settle(recipient(TREE, Places(()), settings), project, settings, settings)
    assert changed == {"trainer.total_training_steps": steps}
    assert [item.what for item in remarks] == ["changed"]


LOOP = """
from verl.experimental.reward.reward_loop import register


@register("mine")
class MineLoop:
    async def run_single(self, data):
        return {"reward_score": 1.0}
"""
BATCHES = """
from verl.workers.reward_manager import register


@register("mine")
class MineOfBatches:
    def __init__(self, tokenizer, num_examine, **given):
        pass

    def __call__(self, data, return_dict=False):
        return [7.0 for item in data]
"""


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("has_both", [True, False])
def test_a_project_that_scores_batches_takes_no_class_that_scores_responses(
    tmp_path: Path, imports: Path, has_both: bool
) -> None:
    """Forks of 0.7.0 have both under one name; a project of that release, which `adopt` makes, has one kind."""
    files = {"src/verl/experimental/reward/reward_loop/mine.py": LOOP}
    files |= {f"src/verl/experimental/{name}__init__.py": "" for name in ("", "reward/", "reward/reward_loop/")}
    files["src/verl/workers/reward_manager/mine.py"] = BATCHES if has_both else ""
    files["src/verl/trainer/main_ppo.py"] = ""
    tree, said = take(chosen_by_name(tmp_path, **files))
    if has_both:
        assert registered(tree, imports)(tokenizer=None, num_examine=0)([1, 3]) == [7.0, 7.0]
    else:
        assert [line.partition(":")[0] for line in said] == ["to do"]
        assert "scores one response at a time" in said[0]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    ("made", "is_given"),
    [("", False), (", overlong_buffer_cfg=config.dapo", True), (", **config.reward_kwargs", True)],
)
def test_a_class_whose_program_hands_over_no_penalty_on_long_responses_gets_none(
    tmp_path: Path, imports: Path, made: str, is_given: bool
) -> None:
    program = PROGRAM.replace(
        "tokenizer, num_examine):\n        pass",
        "tokenizer, num_examine, overlong_buffer_cfg=None):\n        self.overlong = overlong_buffer_cfg",
    ).replace("num_examine=0)", f"num_examine=0{made})")
    places = chosen_by_name(tmp_path, **{"src/verl/trainer/main_ppo.py": program})
    tree, _, _ = scored(Places((*places.folders, tmp_path / "fork/src")), {KEY: "naive"})
    make = registered(tree, imports, "of_the_run")
    given, asked = {"enable": False}, {"enable": True}
    assert make(tokenizer=None, num_examine=0, overlong_buffer_cfg=given).overlong == (given if is_given else None)
    assert make(tokenizer=None, num_examine=0, overlong_buffer_cfg=asked).overlong == asked


@pytest.mark.usefixtures("verl")
def test_scorers_that_may_be_given_more_than_the_row_are_the_function(tmp_path: Path) -> None:
    optional = MORE.replace("prompt_str)", "prompt_str=None)")
    files = {
        "src/verl/utils/reward_score/__init__.py": optional,
        "src/verl/workers/reward_manager/other.py": HANDS.format(more=', prompt_str="ab"'),
    }
    places = chosen_by_name(tmp_path, **files)
    _, changed, _ = scored(Places((*places.folders, tmp_path / "fork/src")), {KEY: "naive"})
    assert changed == {"reward.custom_reward_function.path": "pkg_of_run/custom/verl_reward.py"}


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


@pytest.mark.usefixtures("verl")
def test_what_a_copied_manager_asks_its_section_for_is_kept(tmp_path: Path) -> None:
    checkout, key = tmp_path / "fork", "reward_model.curious.worth"
    made = "num_examine=0, config=config.reward_model)"
    hydra = "@hydra.main(config_path='config', config_name='mine')\ndef main"
    program = MAIN_WITH_A_CLASS.replace("num_examine):", "num_examine, config=None):\n        config.curious.worth")
    assert program.count("num_examine=0)") == 1
    for path, text in {
        "verl/trainer/main_ppo_mine.py": program.replace("num_examine=0)", made).replace("def main_task", hydra),
        "verl/trainer/config/mine.yaml": "data: {}\nreward_model: {curious: {worth: 2}}\n",
        "run.sh": "python3 -m verl.trainer.main_ppo_mine actor_rollout_ref.model.path=a/b\n",
    }.items():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(text)
    done = vextract("new", tmp_path / "mine", "--from-verl-run", checkout / "run.sh", "--keep-unknown", "--offline")
    assert done.code == 0, done.err
    assert f"{key}: 2\n" in (tmp_path / "mine/config/unknown.yaml").read_text()
    (said,) = [line for line in (tmp_path / "mine/from_run.md").read_text().splitlines() if f"`{key}`" in line]
    assert "where the copy that reads it finds it" in said


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
