"""Files that a run names are copied with what they import, no more than is needed, and import in the project."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

from extractor.importers.python_text.definitions import cut_needed_part
from extractor.importers.python_text.module_imports import Name, rewrite_imports
from extractor.importers.runs import imported_project
from extractor.importers.runs.copied_code import named
from extractor.importers.runs.copied_code.copying import Copied
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.run_folders import RunFolders
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import imported, put, vextract
from tests.releases import NEWEST, source_of

REDIRECTED = {
    "from a import b as d, e": "from new.a import b as d\nfrom new.a import e",
    "def f():\n    from a import (\n        b,\n    )\n    return b": "def f():\n    from new.a import b\n    return b",
    "x = 'äöü'\nif x:\n    from a import b, c": "x = 'äöü'\nif x:\n    from new.a import b\n    from new.a import c",
    "import a.b as c": "import new.a.b as c",
    "import a.b\nx = a.b.c(a.b.d)": "import new.a.b as a_b\nx = a_b.c(a_b.d)",
    "from . import z": "from new.pack import z",
    "import os, a": "import os\nimport new.a as a",
    "from a import *": "from new.a import *",
}


def test_imports_are_redirected() -> None:
    def moved(name: Name) -> tuple[str, str | None] | None:
        return None if name.module == "os" else (f"new.{name.module}", name.name)

    for before, after in REDIRECTED.items():
        assert rewrite_imports(before, "pack.module", moved) == after


def recipient(folder: Path, settings: dict[str, Any], *more: File) -> TargetProject:
    hooks = [File(f"p/custom/{name}.py", FileKind.HOOK, b"") for name in ("algorithms", "reward_manager", "__init__")]
    places = RunFolders((folder,))
    return TargetProject(Tree.of([*hooks, *more]), "p", source_of(NEWEST[-1]), places, settings, NEWEST[-1])


def scoring(folder: Path, files: dict[str, str], text: str) -> tuple[Copied, dict[str, str]]:
    """What comes of a function `score`, and the files that are copied with it."""
    copying = recipient(put(folder, {"setup.py": "", **files}), {}).copying()
    return copying.copy(dedent(text), ("score",)), copying.files


def test_packages_that_are_imported_and_not_used_need_not_be_there(tmp_path: Path) -> None:
    """And a module that nothing uses is copied only if it registers something."""
    files = {
        "helpers.py": "import sacrebleu\n\ndef half(x):\n    return x / 2\n",
        "heavy.py": "import scipy_like\n\ndef unlikely():\n    return scipy_like.stats()\n",
        "losses.py": "from algos import register_policy_loss\n\n@register_policy_loss('x')\ndef loss():\n    pass\n",
        "algos.py": "def register_policy_loss(name):\n    return lambda found: found\n",
    }
    text = """
        import wandb, nltk
        import ray
        from snooper import snoop
        from helpers import half
        from heavy import unlikely
        from losses import loss

        nltk.download("punkt")

        def score(text):
            return half(nltk.word_tokenize(text))
        """
    found, copied = scoring(tmp_path, files, text)
    assert (found.packages, found.missing) == (("nltk",), ())
    assert "wandb" not in found.text
    assert "snoop" not in found.text
    assert sorted(copied) == [f"custom/from_run/{name}.py" for name in ("algos", "helpers", "losses")]


def test_what_is_copied_twice_serves_both(tmp_path: Path) -> None:
    put(tmp_path, {"helpers.py": "from sympy_like import parsed\n\ndef half(x):\n    return x / 2\n"})
    project = recipient(tmp_path, {})
    for text in ("from helpers import half\nhalf(1)\n", "from helpers import parsed\nparsed(1)\n"):
        copying = project.copying()
        copying.copy(text, ())
        project = replace(project, tree=project.add_hooks(copying.files, {}))
    helpers = next(file for file in project.tree if file.path.endswith("helpers.py")).data.decode()
    assert "import parsed" in helpers
    assert "def half" in helpers


def test_of_a_module_that_cannot_be_had_what_is_needed_is_copied(tmp_path: Path) -> None:
    helpers = "import sympy_like\nimport ray\n\ndef half(x):\n    return x / 2\n\ndef third(x):\n    return half(x)\n"
    helpers += "\ndef parsed(x):\n    return sympy_like.parse(x)\n\n@ray.util.own\nclass Judge:\n    pass\n"
    copying = recipient(put(tmp_path, {"setup.py": "", "verl/helpers.py": helpers}), {}).copying()
    for used, packages, missing in (
        ("third", (), ()),
        ("parsed", ("sympy_like",), ()),
        ("Judge", (), ("verl.helpers: it imports ray: no project has it",)),
    ):
        text = f"from verl.helpers import {used}\n\ndef score(text):\n    return {used}(text)\n"
        found = copying.copy(text, ("score",))
        assert (found.packages, found.missing) == (packages, missing)
    copied = copying.files["custom/from_run/verl/helpers.py"]  # one file serves all
    assert all(f"def {name}" in copied for name in ("half", "third", "parsed"))
    assert "ray" not in copied


def test_what_a_reward_asks_of_ray_is_done_in_one_process(tmp_path: Path) -> None:
    judge = "@ray.remote(num_cpus=1)\nclass Judge:\n    def judge(self, x):\n        return 2 * x\n"
    score = "def score(x):\n    return ray.get([Judge.remote().judge.remote(x)])\n"
    found, files = scoring(tmp_path, {}, f"import ray\n\n{judge}\n\n{score}")
    local = ModuleType("local_ray")
    exec(files["custom/from_run/local_ray.py"], local.__dict__)
    assert found.text.startswith("import p.custom.from_run.local_ray as ray\n")
    made: dict[str, Any] = {"ray": local}
    exec(found.text.partition("\n")[2], made)
    assert (made["score"](3), found.missing) == ([6], ())


def test_what_a_fork_has_added_to_a_module_of_verls_is_named(tmp_path: Path) -> None:
    module = "verl.utils.torch_functional"
    files = {"verl/utils/torch_functional.py": "def mine(x):\n    return x\n"}
    for use in (f"from {module} import mine", f"import {module} as F\nmine = F.mine"):
        found, _ = scoring(tmp_path, files, f"{use}\n\ndef score(text):\n    return mine(text)\n")
        assert found.missing == (f"{module}: it has no mine",)


def test_what_is_not_needed_is_left_out_without_holes() -> None:
    for text, kept in (
        ("import a\nimport b\n\n\ndef f():\n    return a.x\n\n\nb.login()\n", "import a\n\n\ndef f():"),
        ("import a\na.login()\n\ndef f():\n    return a.x\n", "import a\na.login()\n\ndef f():"),
        ("REG = {}\nREG.update(x=1)\nOTHER = {}\nOTHER.update(x=1)\n\ndef f():\n    return REG\n", "REG.update(x=1)"),
        ("def g():\n    return h()\n\n# of h\ndef h():\n    pass\n\ndef f():\n    pass\n", "def f():"),
    ):
        found = cut_needed_part(text, ["f"])
        assert kept in found
        assert not any(gone in found for gone in ("b.login", "OTHER", "def g", "def h", "# of h")), found
        ast.parse(found)


def test_variables_that_the_script_exports_and_copies_read_are_named(tmp_path: Path) -> None:
    text = b"import os\nURL, HOME = os.environ.get('URL', 'here'), os.environ['HOME']\nOTHER = os.getenv('OTHER')\n"
    project = recipient(tmp_path, {}, File("p/custom/verl_reward.py", FileKind.HOOK, text))
    (remark,) = imported_project.report_variables(project, {"URL": "there", "HOME": "/", "MORE": "1"})
    assert (remark.key, remark.what) == ("$URL", "to do")
    assert remark.why.startswith("p/custom/verl_reward.py reads it, and the run's script exports it")


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


def weight():
    return RuntimeModule.from_string("made", "", "one = 1", "two = 2 * one").two


def folder():
    import verl

    return verl.__file__
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
    "recipe/mine/run.sh": LAUNCH,
}


def test_a_reward_function_imports_in_the_project(tmp_path: Path) -> None:
    run, project = put(tmp_path / "repo", REPOSITORY) / "recipe/mine/run.sh", tmp_path / "p"
    made = imported(project, run, "--verl", NEWEST[-1])
    shown = subprocess.run([sys.executable, "-c", CALL], cwd=project, capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["2.0", "False", "False", "True"]
    copied = project / "p/custom/from_run"
    assert (copied / "runtime_module.py").is_file()
    assert not (copied / "verl/__init__.py").exists()
    assert made.report["run"]["settings"]["data.train_files"] == str(run)
    assert made.remarks("to do") == {
        "data.val_files": "not here: put it there, or python main.py data.val_files=...",
        "actor_rollout_ref.model.path": "not here: put it there, or python main.py actor_rollout_ref.model.path=...",
        "data.custom_cls.path": "not found: put it at p/custom/verl_dataset.py, or say --cwd",
    }
    for flag in ("--cwd", "--config-dir"):
        done = vextract("new", tmp_path / "one", "--from-verl-run", run, flag, tmp_path / "gone")
        assert (done.code, "gone: no such directory" in done.err) == (2, True)


def test_modules_that_register_models_are_to_do(tmp_path: Path) -> None:
    key = "actor_rollout_ref.model.external_lib"
    (remark,) = named.remark_on_modules(recipient(tmp_path, {key: "models.mine", "critic.model.external_lib": None}))
    assert (remark.key, remark.value, remark.what) == (key, "models.mine", "to do")
