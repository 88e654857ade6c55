"""Files that a run names are copied with what they import, and import in the project."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.copied_code import named
from extractor.importers.runs.copied_code.copying import name_package
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.run_folders import RunFolders
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import imported, put, vextract
from tests.releases import NEWEST, source_of

pytestmark = pytest.mark.thorough  # files of runs that people bring: test_round_trip has one of each kind


def test_places_are_those_of_the_repository(tmp_path: Path) -> None:
    repo = put(tmp_path / "repo", {"examples/deep/run.sh": "", ".git/config": "", "reward.py": ""})
    script = repo / "examples/deep/run.sh"
    places = RunFolders.of(script, None)
    assert places.folders[:3] == (script.parent, script.parent.parent, repo)
    assert places.find("reward.py") == repo / "reward.py"
    assert RunFolders.of(script, tmp_path).folders[0] == tmp_path
    put(repo, dict.fromkeys(("examples/setup.py", "deep/fork/verl/__init__.py", ".venv/verl/__init__.py"), ""))
    below = (repo / "src", repo / "deep/fork")
    assert RunFolders.of(script, None).folders[:5] == (*places.folders[:3], *below)
    on_path = places.add_python_path(f"relative:/no/such:{repo / 'deep'}")
    assert on_path.folders == (*places.folders, repo / "deep")
    put(repo, {"examples/reward.py": ""})
    elsewhere = "/home/somebody/repo/examples/reward.py"
    assert places.find_like(elsewhere) == repo / "examples/reward.py"
    assert places.find(elsewhere) is places.find_like("/home/somebody/else.py") is None


def test_what_a_repository_installs_from_a_folder_is_found(tmp_path: Path) -> None:
    names = (".git/config", "grader/setup.py", "grader/grader/math.py", "deep/tools/pyproject.toml", ".env/x/setup.py")
    put(tmp_path, dict.fromkeys((*names, "deep/tools/src/own/tool.py"), ""))
    places = RunFolders.of(tmp_path / "run.sh", None)
    assert places.find("grader/math.py") == tmp_path / "grader/grader/math.py"
    assert places.find("own/tool.py") == tmp_path / "deep/tools/src/own/tool.py"
    assert tmp_path / ".env/x" not in places.folders


# Files of a checkout that was unpacked, the script's folder in it, a folder that is looked in, and where it begins.
UNPACKED = (
    (("LICENSE",), "scripts/train", "", True),
    (("requirements.txt",), "scripts/train", "", True),
    (("verl/__init__.py", "verl/trainer/config/ppo_trainer.yaml"), "recipe/mine", "", True),
    (("verl/__init__.py", "verl/version/version", "recipe/.git"), "recipe/mine", "", True),
    (("verl/__init__.py", "verl/version/version", "recipe/pyproject.toml"), "recipe/mine", "", True),
    (("fork/verl/__init__.py",), "scripts", "fork", False),
    (("fork/verl/__init__.py", "README.md"), "scripts", "fork", True),
    (("fork/verl/__init__.py", "README.md", "fork/.git"), "scripts", "fork", False),
)


def test_an_unpacked_checkout_begins_where_verl_or_such_files_are(tmp_path: Path) -> None:
    for number, (files, folder, looked_in, found) in enumerate(UNPACKED):
        root = put(tmp_path / str(number), dict.fromkeys((*files, f"{folder}/run.sh"), ""))
        places = RunFolders.of(root / folder / "run.sh", None)
        assert (root / looked_in in places.folders) is found, files
        assert looked_in or root in (places.root, places.home)
        for path in files if not looked_in else ():
            assert places.find(path) == root / path


def test_a_config_may_be_in_a_folder_of_the_same_name_as_somebody_elses(tmp_path: Path) -> None:
    put(tmp_path, dict.fromkeys(("config/x", "setup.py", "train.py"), ""))
    places = RunFolders.of(tmp_path / "run.sh", None)
    assert tmp_path / "config" in places.find_folders_like("/home/somebody/config", by_last=True)
    assert places.find_like("/home/somebody/train.py") is None


def test_what_to_install_for_a_module_is_its_package() -> None:
    names = {"cv2": "opencv-python", "pandas": "pandas", "google.genai": "google-genai", "a.b": "a"}
    assert {module: name_package(module) for module in names} == names


DATASET = "from verl.utils.dataset import RLHFDataset\n\n\nclass Mine(RLHFDataset):\n    pass\n"


def test_a_dataset_class_starts_from_that_of_its_own_release(tmp_path: Path) -> None:
    put(tmp_path, {"mine.py": DATASET, "data/mine.py": DATASET})
    upstream = "verl/utils/dataset/rl_dataset.py"
    theirs = File("p/vendored/rl_dataset.py", FileKind.VENDORED, b"class RLHFDataset: ...\n", upstream)
    for release, path in (
        (NEWEST[-1], "mine.py"),
        ("0.6.1", "mine.py"),
        (NEWEST[-1], "file://data/mine.py"),
    ):
        settings = {"data.custom_cls.path": path, "data.custom_cls.name": "Mine"}
        source, places = source_of(release), RunFolders((tmp_path,))
        taken = named.take_files(TargetProject(Tree.of([theirs]), "p", source, places, settings, NEWEST[-1]))
        files = {file.path: file.data.decode() for file in taken.tree}
        copy = f"p/custom/from_run/{upstream}"
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


LAUNCH = """ROOT=$PWD
python -m verl.trainer.main_ppo \\
  data.train_files=$ROOT/recipe/mine/run.sh data.val_files=/d/v.parquet \\
  actor_rollout_ref.model.path=/m algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=4 \\
  custom_reward_function.path=recipe/mine/reward.py data.custom_cls.path=gone.py data.custom_cls.name=Mine
"""
REPOSITORY = {
    ".git/config": "",
    "recipe/mine/reward.py": REWARD,
    "recipe/mine/tasks/__init__.py": "from .weights import weight\n",
    "recipe/mine/tasks/weights.py": WEIGHTS,
    "recipe/mine/tasks/pyext2.py": "import inspect\n\nbefore = inspect.getargspec\n\n\nclass RuntimeModule: ...\n",
    "recipe/mine/run.sh": LAUNCH,
}


def test_a_reward_function_imports_in_the_project(tmp_path: Path) -> None:
    run, project = put(tmp_path / "repo", REPOSITORY) / "recipe/mine/run.sh", tmp_path / "p"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        made = imported(project, run, "--verl", NEWEST[-1])
    assert not [item for item in warned if "escape" in str(item.message)], "the owner's strings are not our business"
    shown = subprocess.run([sys.executable, "-c", CALL], cwd=project, capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["2.0", "False", "False", "False"]
    copied = project / "p/custom/from_run"
    assert (copied / "runtime_module.py").is_file()
    assert not (copied / "verl/__init__.py").exists()
    assert made.report["run"]["settings"]["data.train_files"] == str(run)
    assert made.remarks("to do") == {
        "data.val_files": "not here: put it there, or python main.py data.val_files=...",
        "actor_rollout_ref.model.path": "not here: put it there, or python main.py actor_rollout_ref.model.path=...",
        "data.custom_cls.path": "not found: put it at p/custom/verl_dataset.py, or say --cwd",
    }


def target(folder: Path, settings: dict[str, Any]) -> TargetProject:
    tree = Tree.of([File("p/__init__.py", FileKind.TEMPLATE, b"")])
    return TargetProject(tree, "p", source_of(NEWEST[-1]), RunFolders((folder,)), settings)


def test_modules_that_register_models_are_to_do(tmp_path: Path) -> None:
    key = "actor_rollout_ref.model.external_lib"
    (remark,) = named.remark_on_modules(target(tmp_path, {key: "models.mine", "critic.model.external_lib": None}))
    assert (remark.key, remark.value, remark.what) == (key, "models.mine", "to do")


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    run = put(tmp_path, {"run.sh": "python3 -m verl.trainer.main_ppo data.seed=1\n"}) / "run.sh"
    for flag in ("--cwd", "--config-dir"):
        done = vextract("new", tmp_path / "one", "--from-verl-run", run, flag, tmp_path / "gone")
        assert (done.code, "gone: no such directory" in done.err) == (2, True)
        assert not (tmp_path / "one").exists()
