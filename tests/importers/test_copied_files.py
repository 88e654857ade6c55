"""Files that a run names are copied with what they import, and import in the project."""

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.copied_code import named
from extractor.importers.runs.copied_code.copying import name_package
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.places import RunFolders
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import vextract
from tests.releases import NEWEST, source_of

pytestmark = pytest.mark.thorough  # files of runs that people bring: test_round_trip has one of each kind


def test_places_are_those_of_the_repository(tmp_path: Path) -> None:
    script = tmp_path / "repo/examples/deep/run.sh"
    script.parent.mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    (tmp_path / "repo/reward.py").write_text("")
    places = RunFolders.of(script, None)
    assert places.folders[:3] == (script.parent, script.parent.parent, tmp_path / "repo")
    assert places.find("reward.py") == tmp_path / "repo/reward.py"
    assert RunFolders.of(script, tmp_path).folders[0] == tmp_path
    for name in ("examples/setup.py", "deep/fork/verl/__init__.py", ".venv/verl/__init__.py"):
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / name).write_text("")
    below = (tmp_path / "repo/src", tmp_path / "repo/deep/fork")
    assert RunFolders.of(script, None).folders[:5] == (*places.folders[:3], *below)
    on_path = places.add_python_path(f"relative:/no/such:{tmp_path / 'repo/deep'}")
    assert on_path.folders == (*places.folders, tmp_path / "repo/deep")
    (tmp_path / "repo/examples/reward.py").write_text("")
    elsewhere = "/home/somebody/repo/examples/reward.py"
    assert places.find_like(elsewhere) == tmp_path / "repo/examples/reward.py"
    assert places.find(elsewhere) is places.find_like("/home/somebody/else.py") is None


def test_what_a_repository_installs_from_a_folder_is_found(tmp_path: Path) -> None:
    for name in (
        ".git/config",
        "grader/setup.py",
        "grader/grader/math.py",
        "deep/tools/pyproject.toml",
        ".env/x/setup.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "deep/tools/src/own").mkdir(parents=True)
    (tmp_path / "deep/tools/src/own/tool.py").write_text("")
    places = RunFolders.of(tmp_path / "run.sh", None)
    assert places.find("grader/math.py") == tmp_path / "grader/grader/math.py"
    assert places.find("own/tool.py") == tmp_path / "deep/tools/src/own/tool.py"
    assert tmp_path / ".env/x" not in places.folders


@pytest.mark.parametrize("name", ["LICENSE", "requirements.txt"])
def test_an_unpacked_repository_without_verl_begins_where_such_files_are(tmp_path: Path, name: str) -> None:
    root = tmp_path / "unpacked"
    (root / "scripts/train").mkdir(parents=True)
    (root / name).write_text("")
    places = RunFolders.of(root / "scripts/train/grpo.py", None)
    assert places.folders[:3] == (root / "scripts/train", root / "scripts", root)
    assert places.home == root


def test_an_unpacked_checkout_begins_where_verl_is(tmp_path: Path) -> None:
    script = tmp_path / "main/recipe/mine/run.sh"
    config = tmp_path / "main/verl/trainer/config/ppo_trainer.yaml"
    for file in (script, config, tmp_path / "main/verl/__init__.py"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    places = RunFolders.of(script, None)
    assert places.root == tmp_path / "main"
    assert places.find("verl/trainer/config/ppo_trainer.yaml") == config


@pytest.mark.parametrize(("files", "found"), [((), False), (("README.md",), True), (("README.md", "fork/.git"), False)])
def test_an_unpacked_checkout_is_known_by_its_readme_and_a_folder_with_verl(
    tmp_path: Path, files: tuple[str, ...], found: bool
) -> None:
    root = tmp_path / "unpacked"
    script = root / "scripts/run.sh"
    for file in (script, root / "fork/verl/__init__.py", *(root / name for name in files)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert (root / "fork" in RunFolders.of(script, None).folders) is found


def test_a_config_may_be_in_a_folder_of_the_same_name_as_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "setup.py").touch()
    (tmp_path / "train.py").touch()
    places = RunFolders.of(tmp_path / "run.sh", None)
    folders = places.find_folders_like("/home/somebody/config", by_last=True)
    assert tmp_path / "config" in folders
    assert places.find_like("/home/somebody/train.py") is None


@pytest.mark.parametrize("mark", [".git", "pyproject.toml"])
def test_a_repository_in_a_checkout_of_verl_is_started_from_there(mark: str, tmp_path: Path) -> None:
    script = tmp_path / "main/recipe/mine/run.sh"
    version = tmp_path / "main/verl/version/version"
    for file in (script, version, tmp_path / "main/verl/__init__.py", tmp_path / "main/recipe" / mark):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    places = RunFolders.of(script, None)
    assert places.root == tmp_path / "main"
    assert places.find("verl/version/version") == version


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("cv2", "opencv-python"),
        ("pandas", "pandas"),
        ("google.genai", "google-genai"),
        ("a.b", "a"),
    ],
)
def test_what_to_install_for_a_module_is_its_package(module: str, package: str) -> None:
    assert name_package(module) == package


DATASET = "from verl.utils.dataset import RLHFDataset\n\n\nclass Mine(RLHFDataset):\n    pass\n"


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    ("release", "path"),
    [
        (NEWEST[-1], "mine.py"),
        ("0.6.1", "mine.py"),
        (NEWEST[-1], "pkg://data.mine"),
        (NEWEST[-1], "file://data/mine.py"),
    ],
)
def test_a_dataset_class_starts_from_that_of_its_own_release(tmp_path: Path, release: str, path: str) -> None:
    (tmp_path / "data").mkdir()
    for folder in (tmp_path, tmp_path / "data"):
        (folder / "mine.py").write_text(DATASET)
    upstream = "verl/utils/dataset/rl_dataset.py"
    theirs = File("p/vendored/rl_dataset.py", FileKind.VENDORED, b"class RLHFDataset: ...\n", upstream)
    settings = {"data.custom_cls.path": path, "data.custom_cls.name": "Mine"}
    source, places = source_of(release), RunFolders((tmp_path,))
    taken = named.take_files(TargetProject(Tree.of([theirs]), "p", source, places, settings, NEWEST[-1]))
    files = {file.path: file.data.decode() for file in taken.tree}
    copy = "p/custom/from_run/verl/utils/dataset/rl_dataset.py"
    assert (copy in files) is (release != NEWEST[-1])
    there = "p.custom.from_run.verl.utils.dataset.rl_dataset" if copy in files else "p.vendored.rl_dataset"
    assert f"from {there} import RLHFDataset" in files["p/custom/verl_dataset.py"]


REWARD = """
import statistics
import ray
from recipe.mine import tasks
from verl.utils.reward_score import gsm8k
import verl.utils.torch_functional as F


@ray.remote
class Worker:
    def score(self):
        return tasks.weight()


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    import verl.utils.py_functional

    verl.utils.py_functional.append_to_dict({}, {})
    F.masked_mean
    return gsm8k.compute_score("#### 4", "4") * tasks.weight() * statistics.mean([1, 1])
"""
CALL = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("reward", "p/custom/verl_reward.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.compute_score("", "", ""), "ray" in sys.modules, "verl" in sys.modules, hasattr(module, "Worker"))
"""


# Of verl itself it needs nothing to score.
WEIGHTS = """
from pyext import RuntimeModule
from .pyext2 import RuntimeModule as Copied


def weight():
    one = Copied.from_string("made", "", "one = 1").one
    return RuntimeModule.from_string("made", "", f"one = {one}", "two = 2 * one").two


def folder():
    import verl

    return verl.__file__, "\\p"
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a launch script that is started from its root."""
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / "recipe/mine/tasks").mkdir(parents=True)
    (root / "recipe/mine/reward.py").write_text(REWARD)
    (root / "recipe/mine/tasks/__init__.py").write_text("from .weights import weight\n")
    (root / "recipe/mine/tasks/weights.py").write_text(WEIGHTS)
    (root / "recipe/mine/tasks/pyext2.py").write_text(
        "import inspect\n\nbefore = inspect.getargspec\n\n\nclass RuntimeModule:\n    pass\n"
    )
    (root / "recipe/mine/run.sh").write_text(
        "ROOT=$PWD\npython -m verl.trainer.main_ppo \\\n"
        "  data.train_files=$ROOT/recipe/mine/run.sh data.val_files=/d/v.parquet \\\n"
        "  actor_rollout_ref.model.path=/m algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=4 \\\n"
        "  custom_reward_function.path=recipe/mine/reward.py data.custom_cls.path=gone.py data.custom_cls.name=Mine\n"
    )
    return root


@pytest.mark.usefixtures("verl")
def test_a_reward_function_imports_in_the_project(repository: Path, tmp_path: Path) -> None:
    project = tmp_path / "p"
    arguments = ("--verl", NEWEST[-1], "--from-verl-run", repository / "recipe/mine/run.sh", "--json")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = vextract("new", project, *arguments)
    assert result.code == 0, result.err
    assert not [item for item in warned if "escape" in str(item.message)], "the owner's strings are not our business"
    shown = subprocess.run([sys.executable, "-c", CALL], cwd=project, capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["2.0", "False", "False", "False"]
    copied = project / "p/custom/from_run"
    assert (copied / "runtime_module.py").is_file()
    assert not (copied / "verl/__init__.py").exists()
    run = result.json["run"]
    assert run["settings"]["data.train_files"] == str(repository / "recipe/mine/run.sh")
    to_do = [f"{item['key']}: {item['why']}" for item in run["remarks"] if item["what"] == "to do"]
    assert to_do == [
        "data.val_files: not here: put it there, or python main.py data.val_files=...",
        "actor_rollout_ref.model.path: not here: put it there, or python main.py actor_rollout_ref.model.path=...",
        "data.custom_cls.path: not found: put it at p/custom/verl_dataset.py, or say --cwd",
    ]
    assert any("has only what" in item["why"] for item in run["remarks"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def other(): ...\n", ["it has no score, which the run names: define it in p/custom/verl_reward.py"]),
        ("if True:\n    def score(): ...\n", []),
        ("try:\n    from math import sqrt as score\nexcept ImportError:\n    score = None\n", []),
        ("from math import *\n", []),
    ],
)
@pytest.mark.usefixtures("verl")
def test_a_function_that_its_file_has_not_is_named(tmp_path: Path, text: str, said: list[str]) -> None:
    (tmp_path / "reward.py").write_text(text)
    section = "reward.custom_reward_function"
    settings = {f"{section}.path": "reward.py", f"{section}.name": "score"}
    tree = Tree.of([File("p/__init__.py", FileKind.TEMPLATE, b"")])
    project = TargetProject(tree, "p", source_of(NEWEST[-1]), RunFolders((tmp_path,)), settings)
    assert [item.why for item in named.take_files(project).remarks if item.what == "to do"] == said


ACTORS, CRITICS = "actor_rollout_ref.model.external_lib", "critic.model.external_lib"


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    ("settings", "imported", "left", "said"),
    [
        ({ACTORS: "models.mine"}, ["models.mine"], {}, []),
        ({ACTORS: "models.mine", CRITICS: "models.mine"}, ["models.mine"], {}, []),
        ({CRITICS: ["models.mine", "models.other"]}, ["models.mine", "models.other"], {}, []),
        ({ACTORS: "models.mine", CRITICS: f"${{{ACTORS}}}"}, ["models.mine"], {CRITICS: f"${{{ACTORS}}}"}, []),
        ({ACTORS: "gone.at_all"}, [], {ACTORS: "gone.at_all"}, ["not in the run's checkout: pip install gone, or say"]),
        ({ACTORS: "json.tool"}, [], {ACTORS: "json.tool"}, []),
        ({ACTORS: "no module"}, [], {ACTORS: "no module"}, ["not copied: invalid syntax"]),
        ({ACTORS: None}, [], {ACTORS: None}, []),
    ],
)
def test_what_registers_models_comes_along(
    tmp_path: Path, settings: dict[str, Any], imported: list[str], left: dict[str, Any], said: list[str]
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/mine.py").write_text("from transformers import AutoConfig\n\nfrom . import other\n\nother.N\n")
    (tmp_path / "models/other.py").write_text("N = 1\n")
    tree = Tree.of([File("p/__init__.py", FileKind.TEMPLATE, b"")])
    taken = named.take_modules(TargetProject(tree, "p", source_of(NEWEST[-1]), RunFolders((tmp_path,)), settings))
    files = {file.path: file.data.decode() for file in taken.tree}
    hook = files.get("p/custom/verl_models.py", "")
    assert re.findall(r"import p\.custom\.from_run\.(\S+)", hook) == imported
    assert ("p/custom/from_run/models/other.py" in files) is bool(imported)
    assert {**settings, **taken.settings} == {**dict.fromkeys(settings, "p.custom.verl_models"), **left}
    to_do = [item.why for item in taken.remarks if item.what == "to do"]
    assert len(to_do) == len(said)
    assert all(why.startswith(start) for why, start in zip(to_do, said, strict=True))


@pytest.mark.parametrize("flag", ["--cwd", "--config-dir"])
def test_a_directory_that_is_not_there_is_refused(tmp_path: Path, flag: str) -> None:
    (tmp_path / "run.sh").write_text("python3 -m verl.trainer.main_ppo data.seed=1\n")
    done = vextract("new", tmp_path / "one", "--from-verl-run", tmp_path / "run.sh", flag, tmp_path / "gone")
    assert done.code == 2
    assert "gone: no such directory" in done.err
    assert not (tmp_path / "one").exists()
