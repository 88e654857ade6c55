"""Copies of a checkout's files: only what is needed of a version of verl's, and what they count on around them."""

from __future__ import annotations

import ast
import importlib
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from extractor.importers.runs import templates
from extractor.importers.runs.files import Copied, Copying, Places
from extractor.importers.runs.files.needed import needed_part, without_unused
from extractor.importers.runs.taken_over import manager_hooks, registered, scorers, surroundings
from extractor.importers.runs.taken_over.recipient import Recipient, Taken
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import written
from tests.releases import NEWEST, source_of

CORE = "verl/trainer/ppo/core_algos.py"
ESTIMATORS = '''
from enum import Enum

FOUND = {}


class AdvantageEstimator(str, Enum):
    GRPO = "grpo"


def register_adv_est(name):
    """Register an estimator."""
    def decorated(function):
        FOUND[name.value if isinstance(name, AdvantageEstimator) else name] = function
        return function
    return decorated


def centred(scores):
    return [score - sum(scores) / len(scores) for score in scores]


def scale():
    return 1


@register_adv_est(AdvantageEstimator.GRPO)
def grpo(scores):
    return [scale() * score for score in centred(scores)]
'''
# A fork's: one more estimator, whose name is a member of the enumeration, and one helper of its own.
OF_A_FORK = (
    ESTIMATORS.replace('    GRPO = "grpo"', '    GRPO = "grpo"\n    MINE = "mine"').replace("return 1", "return 2")
    + """

@register_adv_est(AdvantageEstimator.MINE)
def mine(scores):
    return [scale() * score for score in centred(scores)]


@register_adv_est("other")
def other(scores):
    return wanted_by_others(scores)
"""
)


def checkout(folder: Path, files: dict[str, str]) -> Places:
    for path, text in {"setup.py": "", **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(dedent(text))
    return Places((folder,))


def recipient(places: Places, settings: dict[str, Any], *more: File) -> Recipient:
    hooks = [File(f"pkg/custom/{name}.py", FileKind.HOOK, b"") for name in ("algorithms", "reward_manager", "__init__")]
    core = File("pkg/vendored/core_algos.py", FileKind.VENDORED, ESTIMATORS.encode(), CORE)
    tree = Tree.of([*hooks, core, *more])
    return Recipient(tree, "pkg", source_of(NEWEST[-1]), places, settings, NEWEST[-1])


def text_of(taken: Taken, path: str) -> str:
    return next(file.data.decode() for file in taken.tree if file.path == path)


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("decorated", ["AdvantageEstimator.MINE", "AdvantageEstimator.MINE.value", '"mine"'])
def test_an_estimator_of_a_forks_own_core_algos_is_registered_with_the_projects(
    tmp_path: Path, pkg: Path, decorated: str
) -> None:
    fork = OF_A_FORK.replace("AdvantageEstimator.MINE", decorated)
    project = recipient(checkout(tmp_path / "fork", {CORE: fork}), {"algorithm.adv_estimator": "mine"})
    taken = registered.take(project)
    written(taken.tree, pkg)
    importlib.import_module("pkg.custom.algorithms")
    core = importlib.import_module("pkg.vendored.core_algos")
    assert core.FOUND["mine"]([1.0, 3.0]) == [-2.0, 2.0]  # by the fork's own helper
    assert core.FOUND["grpo"]([1.0, 3.0]) == [-1.0, 1.0]  # and the project's estimators are as they were
    assert sorted(core.FOUND) == ["grpo", "mine"]
    assert not [item.why for item in taken.remarks if "pip install" in item.why]
    copied = text_of(taken, "pkg/custom/verl_algorithms.py")
    assert "from pkg.vendored.core_algos import centred" in copied
    assert "wanted_by_others" not in copied


@pytest.mark.usefixtures("verl")
def test_what_only_the_forks_trainer_hands_to_an_estimator_is_named(tmp_path: Path) -> None:
    takes = "def mine(token_level_rewards, response_mask, values, config=None, *, lengths, index=None, **more):"
    fork = OF_A_FORK.replace("def mine(scores):", takes).replace(
        "for score in centred(scores)]", "for score in values]"
    )
    project = recipient(checkout(tmp_path, {CORE: fork}), {"algorithm.adv_estimator": "mine"})
    said = [item.why for item in registered.take(project).remarks if item.what == "to do"]
    assert said == ["pkg/custom/verl_algorithms.py: mine takes values, lengths, which only its own trainer hands over"]


PROGRAM = """
import wandb
from verl.trainer.mine import Mine, MineInValidation

wandb.login(key="x")

def main(config):
    reward_fn = Mine(tokenizer=None, num_examine=0, config=config)
    val_reward_fn = MineInValidation(tokenizer=None, num_examine=1)
"""
MANAGER = """
import snooper
import json

class Mine:
    def __init__(self, tokenizer, num_examine, config=None):
        self.threshold = json.loads("0.5")

    def __call__(self, data, return_dict=False):
        return {"reward_tensor": [self.threshold for _ in data], "reward_extra_info": {}}

class MineInValidation(Mine):
    pass
"""


@pytest.mark.usefixtures("verl")
def test_the_manager_that_a_program_imports_scores(tmp_path: Path) -> None:
    files = {"verl/trainer/main_ppo.py": PROGRAM, "verl/trainer/mine.py": MANAGER}
    before = {"reward.custom_reward_function.path": None, "reward.reward_manager.name": "naive"}
    taken = scorers.take(recipient(checkout(tmp_path, files), {}), "verl.trainer.main_ppo", before)
    assert taken.settings == {"reward.reward_manager.name": "of_the_run"}
    assert "class Mine:" in text_of(taken, "pkg/custom/verl_program.py")
    assert "verl/trainer/mine.py" in taken.remarks[0].why
    assert [item.what for item in taken.remarks] == ["changed"]  # no package is to be installed: it is not used


def copied(folder: Path, text: str, roots: tuple[str, ...], files: dict[str, str] | None = None) -> Copied:
    return recipient(checkout(folder, files or {}), {}).copying().copy(dedent(text), roots)


@pytest.mark.usefixtures("verl")
def test_packages_that_are_imported_and_not_used_need_not_be_there(tmp_path: Path) -> None:
    text = """
        import wandb, nltk
        import ray
        from snooper import snoop
        from helpers import half

        nltk.download("punkt")

        def score(text):
            return half(nltk.word_tokenize(text))
        """
    found = copied(tmp_path, text, ("score",), {"helpers.py": "import sacrebleu\n\ndef half(x):\n    return x / 2\n"})
    assert found.packages == ("nltk",)
    assert found.missing == ()
    assert "wandb" not in found.text
    assert "snoop" not in found.text


@pytest.mark.usefixtures("verl")
def test_a_module_that_nothing_uses_is_not_copied_unless_it_registers(tmp_path: Path) -> None:
    files = {
        "heavy.py": "import scipy_like\n\ndef unlikely():\n    return scipy_like.stats()\n",
        "losses.py": "from algos import register_policy_loss\n\n@register_policy_loss('x')\ndef loss():\n    pass\n",
        "algos.py": "def register_policy_loss(name):\n    return lambda found: found\n",
    }
    text = "from heavy import unlikely\nfrom losses import loss\n\ndef score(text):\n    return 1.0\n"
    copying = recipient(checkout(tmp_path, files), {}).copying()
    found = copying.copy(text, ("score",))
    assert found.packages == ()
    assert sorted(copying.files) == ["custom/from_run/algos.py", "custom/from_run/losses.py"]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("taken", ["from helpers import half, parsed", "from helpers import *"])
def test_what_a_module_hands_on_stays_in_it(tmp_path: Path, taken: str) -> None:
    helpers = "from sympy_like import parsed\n\ndef half(x):\n    return x / 2\n"
    files = {"helpers.py": helpers, "before.py": "from helpers import half\n"}
    text = f"from before import half as other\n{taken}\n\ndef score(text):\n    return half(parsed(other(text)))\n"
    copying = recipient(checkout(tmp_path, files), {}).copying()
    found = copying.copy(text, ("score",))
    assert found.packages == ("sympy_like",)
    assert "from sympy_like import parsed" in copying.files["custom/from_run/helpers.py"]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("first", [0, 1])
def test_what_is_copied_twice_serves_both(tmp_path: Path, first: int) -> None:
    places = checkout(tmp_path, {"helpers.py": "from sympy_like import parsed\n\ndef half(x):\n    return x / 2\n"})
    texts = ["from helpers import half\nhalf(1)\n", "from helpers import parsed\nparsed(1)\n"]
    project = recipient(places, {})
    for text in (texts[first], texts[1 - first]):
        copying = project.copying()
        copying.copy(text, ())
        project = replace(project, tree=project.with_hooks(copying.files, {}))
    helpers = next(file for file in project.tree if file.path.endswith("helpers.py")).data.decode()
    assert "import parsed" in helpers
    assert "def half" in helpers


HELPERS = """
    import sympy_like
    import ray

    def half(x):
        return x / 2

    def third(x):
        return half(x) / 1.5

    def parsed(x):
        return sympy_like.parse(x)

    @ray.remote
    class Judge:
        pass
    """


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("use", ["from verl.helpers import half\nhalf(1)", "import verl.helpers as h\nh.half(1)"])
def test_of_a_module_that_cannot_be_had_what_is_needed_is_copied(tmp_path: Path, use: str) -> None:
    files = {"verl/helpers.py": HELPERS, "first.py": f"{use}\n\ndef one():\n    return 1\n"}
    text = "from first import one\nfrom verl.helpers import third\n\ndef score(text):\n    return third(one())\n"
    copying = recipient(checkout(tmp_path, files), {}).copying()
    found = copying.copy(text, ("score",))
    assert found.missing == found.packages == ()
    helpers = copying.files["custom/from_run/verl/helpers.py"]
    assert "def half" in helpers
    assert "def third" in helpers
    assert "ray" not in helpers
    assert "sympy_like" not in helpers
    with_parsed = copying.copy(
        "from verl.helpers import parsed\n\ndef score(text):\n    return parsed(text)\n", ("score",)
    )
    assert with_parsed.packages == ("sympy_like",)
    assert "def third" in copying.files["custom/from_run/verl/helpers.py"]  # one file serves both
    judged = copying.copy("from verl.helpers import Judge\n\ndef score(text):\n    return Judge(text)\n", ("score",))
    assert judged.missing == ("verl.helpers: it imports ray: no project has it",)


@pytest.mark.usefixtures("verl")
def test_what_is_imported_on_a_condition_need_not_be_there_and_is_named(tmp_path: Path) -> None:
    files = {
        "judges/__init__.py": """
            import os
            if os.environ.get("JUDGE") == "docker":
                from .in_docker import judged
            else:
                from .here import judged
            try:
                from .fast import sum
            except ImportError:
                pass
            """,
        "judges/in_docker.py": "from .gone import x\nfrom docker.types import Limit\n\ndef judged(y):\n    x(Limit)\n",
        "judges/here.py": "def judged(x):\n    return 1.0\n",
        "docker/Dockerfile": "",
    }
    text = "def score(text):\n    from judges import judged\n    import other_folder\n    return judged(text)\n"
    copying = recipient(checkout(tmp_path, {**files, "other_folder/notes.txt": ""}), {}).copying()
    found = copying.copy(text, ("score",))
    assert found.missing == ()
    assert found.absent == ("judges.in_docker: it imports judges.gone: no such module",)
    assert "custom/from_run/judges/here.py" in copying.files
    assert found.packages == ("other_folder",)  # a folder without Python files is none of the checkout's


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("last", ["def f25():\n    return 1\n", "from nowhere_here.x import f25\n"])
def test_a_long_chain_of_parts_is_looked_at_once(tmp_path: Path, last: str) -> None:
    files = {
        f"m{number}.py": f"from ray.util import queue\nfrom m{number + 1} import f{number + 1}\n\n\ndef f{number}():\n"
        f"    return f{number + 1}()\n\n\n@queue.x\nclass Judge:\n    pass\n"
        for number in range(25)
    }
    text = "from m0 import f0\n\ndef score(text):\n    return f0()\n"
    found = recipient(checkout(tmp_path, {**files, "m25.py": last}), {}).copying().copy(text, ("score",))
    assert not any("ray" in item for item in found.missing)
    assert len(found.missing) == 0
    assert found.packages == (("nowhere_here",) if "nowhere" in last else ())


@pytest.mark.usefixtures("verl")
def test_what_a_file_takes_from_a_module_is_asked_for_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that needs a package is copied in part, once, however many of its names are needed."""
    names = [f"name_{number}" for number in range(20)]
    lines = "".join(f"\ndef {name}():\n    return 1\n" for name in names)
    needs = "import nowhere\n\ndef other():\n    return nowhere\n"
    files = {"one.py": f"from two import {', '.join(names)}\nuse = [{', '.join(names)}]\n{needs}{lines}"}
    files["two.py"] = f"{needs}{lines}"
    text = f"from one import {', '.join(names)}\n\ndef score(x):\n    return {' + '.join(names)}\n"
    gathered = []
    gather = Copying._gather
    monkeypatch.setattr(
        Copying,
        "_gather",
        lambda self, module, *given, **named: gathered.append(module) or gather(self, module, *given, **named),
    )
    copying = recipient(checkout(tmp_path, files), {}).copying()
    assert not copying.copy(text, ("score",)).missing
    assert gathered.count("two") <= 4 * gathered.count("one") <= 8, gathered


@pytest.mark.usefixtures("verl")
def test_a_part_that_was_copied_for_something_else_stays(tmp_path: Path) -> None:
    project = recipient(checkout(tmp_path, {"verl/helpers.py": HELPERS}), {})
    for name in ("third", "parsed", "half"):
        copying = project.copying()
        copying.copy(f"from verl.helpers import {name}\n{name}(1)\n", ())
        project = replace(project, tree=project.with_hooks(copying.files, {}))
    helpers = next(file for file in project.tree if file.path.endswith("helpers.py")).data.decode()
    assert [node.name for node in ast.parse(helpers).body if isinstance(node, ast.FunctionDef)] == [
        "half",
        "third",
        "parsed",
    ]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    "use", ["from verl.utils.torch_functional import mine", "import verl.utils.torch_functional as F\nmine = F.mine"]
)
def test_what_a_fork_has_added_to_a_module_of_verls_is_copied(tmp_path: Path, use: str) -> None:
    files = {
        "verl/utils/torch_functional.py": "import ray\n\ndef mine(x):\n    return x\n\ndef other():\n    ray.x()\n"
    }
    copying = recipient(checkout(tmp_path, files), {}).copying()
    found = copying.copy(f"{use}\n\ndef score(text):\n    return mine(text)\n", ("score",))
    assert found.missing == ()
    assert "def mine" in copying.files["custom/from_run/verl/utils/torch_functional.py"]


VERLS_DATASET = """
class RLHFDataset:
    prompt_key = "prompt"

    def _build_messages(self, example, key):
        return [example[key]]

    def row(self, example):
        return self._build_messages(example, key=self.prompt_key)
"""


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    ("own", "messages"),
    [
        ("def _build_messages(self, row):\n        return [row['other']]", ["b"]),
        ("def row(self, example):\n        return self._build_messages(example)", ["a"]),
        ("def _build_messages(self, row):\n        return super()._build_messages(row) + [1]", ["a", 1]),
        ("def _build_messages(self, row, key):\n        return [row[key]]", ["a"]),
    ],
)
def test_a_dataset_of_before_080_makes_messages_of_a_row_alone(
    tmp_path: Path, pkg: Path, own: str, messages: list[Any]
) -> None:
    path = "verl/utils/dataset/rl_dataset.py"
    theirs = File("pkg/vendored/data/rl_dataset.py", FileKind.VENDORED, VERLS_DATASET.encode(), path)
    project = recipient(checkout(tmp_path / "fork", {}), {}, theirs)
    copying = project.copying()
    text = f"from verl.utils.dataset.rl_dataset import RLHFDataset\n\n\nclass Mine(RLHFDataset):\n    {own}\n"
    copied = copying.copy(text, ("Mine",))
    assert copied.missing == ()
    assert ("custom/from_run/earlier_dataset.py" in copying.files) == ("key)" not in own)
    written(project.with_hooks({"custom/mine.py": copied.text, **copying.files}, {}), pkg)
    found = importlib.import_module("pkg.custom.mine").Mine().row({"prompt": "a", "other": "b"})
    assert found == messages


@pytest.mark.usefixtures("verl")
def test_a_name_that_a_package_hands_on_with_a_star_is_the_projects(tmp_path: Path) -> None:
    theirs = File(
        "pkg/vendored/actor.py", FileKind.VENDORED, b"class ActorConfig: ...\n", "verl/workers/config/actor.py"
    )
    copying = recipient(checkout(tmp_path, {}), {}, theirs).copying()
    found = copying.copy(
        "from verl.workers.config import ActorConfig\n\ndef loss(config: ActorConfig): ...\n", ("loss",)
    )
    assert "from pkg.vendored.actor import ActorConfig" in found.text
    assert not copying.files


@pytest.mark.usefixtures("verl")
def test_what_configs_are_made_of_is_the_projects_also_where_the_fork_has_its_own(tmp_path: Path) -> None:
    theirs = File(
        "pkg/vendored/actor.py", FileKind.VENDORED, b"class ActorConfig: ...\n", "verl/workers/config/actor.py"
    )
    forks = {"verl/workers/config/__init__.py": "from .actor import *\n"}
    forks["verl/workers/config/actor.py"] = "import ray\nclass ActorConfig: ...\nclass Mine: ...\n"
    copying = recipient(checkout(tmp_path, forks), {}, theirs).copying()
    text = "from verl.workers.config import ActorConfig\n\n\ndef loss(config):\n    isinstance(config, ActorConfig)\n"
    assert "from pkg.vendored.actor import ActorConfig" in copying.copy(text, ("loss",)).text
    assert not copying.files


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("import a\nimport b\n\n\ndef f():\n    return a.x\n\n\nb.login()\n", "import a\n\n\ndef f():"),
        ("import a\na.login()\n\ndef f():\n    return a.x\n", "import a\na.login()\n\ndef f():"),
        ("REG = {}\nREG.update(x=1)\nOTHER = {}\nOTHER.update(x=1)\n\ndef f():\n    return REG\n", "REG.update(x=1)"),
        ("for x in (1, 2):\n    OTHER = x\n\ndef f():\n    return [x for x in (3, 4)]\n", "def f():"),
        ("def g():\n    return h()\n\n# of h\ndef h():\n    pass\n\ndef f():\n    pass\n", "def f():"),
    ],
)
def test_what_is_not_needed_is_left_out(text: str, kept: str) -> None:
    found = needed_part(text, ["f"], {})
    assert kept in found
    for gone in ("b.login", "OTHER", "def g", "def h", "# of h"):
        assert gone not in found
    ast.parse(found)


def test_names_of_elsewhere_are_imported_behind_the_docstring() -> None:
    text = (
        '"""What it is."""\nfrom __future__ import annotations\n\ndef g():\n    pass\n\n@g\ndef f():\n    return g()\n'
    )
    found = needed_part(text, ["f"], {"g": "far.away"})
    assert found.startswith('"""What it is."""\nfrom __future__ import annotations\n')
    assert found.rstrip().endswith("from far.away import g\n@g\ndef f():\n    return g()")
    assert "def g" not in found
    assert needed_part(text, ["not_there"], {}) == text


def test_what_is_left_of_a_module_has_no_holes() -> None:
    parts = [
        "a = 1",
        "def f():\n    return a",
        "# of b\nb = 2",
        "def g():\n    return b",
        "c = 3",
        "def h():\n    return f",
    ]
    text = "\n\n\n".join(parts) + "\n"
    assert needed_part(text, ["h"], {}) == "\n\n\n".join([parts[0], parts[1], parts[5]]) + "\n"
    assert needed_part(text, ["g"], {}) == "\n\n\n".join(["# of b\nb = 2", parts[3]]) + "\n"


def test_imports_that_share_a_line_or_are_exported_stay() -> None:
    text = "import a; x = 1\nimport b\n__all__ = ['b']\nimport c.d\nc.d.e()\nimport f\n"
    assert without_unused(text).split("\n") == [
        "import a; x = 1",
        "import b",
        "__all__ = ['b']",
        "import c.d",
        "c.d.e()",
        "",
    ]


def surrounded(tmp_path: Path, text: str, environment: dict[str, str]) -> tuple[str, list[str]]:
    places = checkout(tmp_path, {"data/items.json": "{}"})
    hook = File("pkg/custom/verl_reward.py", FileKind.HOOK, dedent(text).encode())
    taken = surroundings.take(recipient(places, {}, hook), environment)
    return text_of(taken, hook.path), [f"{item.what}: {item.key}={item.value}" for item in taken.remarks]


@pytest.mark.usefixtures("verl")
def test_copies_find_what_the_script_exports_and_secrets_are_not_written_down(tmp_path: Path) -> None:
    text = '''
        """Score."""
        import os
        ITEMS = os.environ.get("ITEMS", "nowhere")
        HOME = os.getenv("HOME")
        KEY = os.environ["JUDGE_API_KEY"]
        '''
    exported = {"ITEMS": "data/items.json", "JUDGE_API_KEY": "sk-1", "HOME": "/root", "NOT_READ": "1"}
    found, said = surrounded(tmp_path, text, exported)
    known: dict[str, Any] = {"__name__": "hook"}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ITEMS", raising=False)
        patch.setenv("JUDGE_API_KEY", "of the owner")
        exec(found, known)
        patch.setenv("ITEMS", "the owner's")
        again: dict[str, Any] = {}
        exec(found, again)
        patch.delenv("ITEMS")
    assert (known["ITEMS"], known["KEY"]) == (str(tmp_path / "data/items.json"), "of the owner")
    assert again["ITEMS"] == "the owner's"
    assert "sk-1" not in found
    assert said == ["changed: $ITEMS=data/items.json", "to do: $JUDGE_API_KEY=None"]


@pytest.mark.usefixtures("verl")
def test_data_files_of_the_checkout_are_found_from_a_project(tmp_path: Path) -> None:
    text = """
        import json
        def read(path="data/items.json"):
            with open("data/log.txt", "w") as file, open("/else/where/names.txt") as names:
                file.write(f"{path}/data/items.json")
            return json.load(open("data/items.json")), "data/items.json is read"
        """
    found, said = surrounded(tmp_path, text, {})
    assert found.count(repr(str(tmp_path / "data/items.json"))) == 2
    assert 'open("data/log.txt", "w")' in found
    assert sorted(set(said)) == ["changed: file=data/items.json", "to do: file=/else/where/names.txt"]
    ast.parse(found)


@pytest.mark.usefixtures("verl")
def test_names_that_the_checkout_defines_nowhere_are_said_with_their_lines(tmp_path: Path) -> None:
    text = """
        import json
        def score(data):
            found = defaultdict(list)
            return found, json.dumps([item for item in data]), __name__, scale, defaultdict
        scale = 2
        if __name__ == "__main__":
            print(only_when_run_alone())
        """
    _, said = surrounded(tmp_path, text, {})
    assert said == ["to do: name=defaultdict"]
    _, said = surrounded(tmp_path, f"from collections import *{text}", {})
    assert said == []  # a star may bring any


@pytest.mark.usefixtures("verl")
def test_what_only_the_forks_trainer_puts_into_a_batch_is_named(tmp_path: Path) -> None:
    text = """
        def score(data):
            data.batch["made_here"] = 1
            return data.batch["turn_scores"], data.batch["made_here"], data.batch["responses"]
        """
    hook = File("pkg/vendored/rollout.py", FileKind.VENDORED, b'COLUMNS = ("responses", "prompts")\n')
    copy = File("pkg/custom/verl_program.py", FileKind.HOOK, dedent(text).encode())
    taken = surroundings.take(recipient(checkout(tmp_path, {}), {}, hook, copy), {})
    assert [(item.key, item.value, item.what) for item in taken.remarks] == [("batch", "turn_scores", "to do")]


@pytest.mark.usefixtures("verl")
def test_a_manager_of_before_040_finds_log_probs_in_the_batch(tmp_path: Path, pkg: Path) -> None:
    register = "def register(name):\n    return lambda found: found\n"
    reads = "class Mine:\n    def __call__(self, data):\n        return list(data.batch['old_log_probs'])\n"
    text = manager_hooks.adapted("mine", "x.py", "Mine", "from .from_run.mine import Mine", "None")
    hook = File("pkg/custom/verl_reward_manager.py", FileKind.HOOK, text.encode())
    own = File("pkg/custom/from_run/own_settings.py", FileKind.HOOK, templates.render("own_settings.py").encode())
    copy = File("pkg/custom/from_run/mine.py", FileKind.HOOK, reads.encode())
    vendored = "pkg/vendored/workers/reward_manager/registry.py"
    core = File(vendored, FileKind.VENDORED, register.encode(), "verl/workers/reward_manager/registry.py")
    project = recipient(checkout(tmp_path, {}), {}, hook, own, copy, core)
    taken = surroundings.take(project, {})
    assert [item.value for item in taken.remarks if item.what == "changed"] == ["old_log_probs"]
    key = "actor_rollout_ref.rollout.calculate_log_probs"
    asked = surroundings.asking_the_engine(project, {key: False})
    assert asked.settings == {key: True}
    assert [item.key for item in asked.remarks] == [key]
    assert surroundings.asking_the_engine(project, {}).settings == {}
    written(taken.tree, pkg)
    manager = importlib.import_module("pkg.custom.verl_reward_manager").RunRewardManager()
    batch = {"rollout_log_probs": [0.5]}
    assert manager(SimpleNamespace(batch=batch, meta_info={})) == [0.5]
    assert batch == {"rollout_log_probs": [0.5]}  # the trainer's are computed later


@pytest.mark.usefixtures("verl")
def test_a_manager_that_reads_conversations_gets_them_by_turns(tmp_path: Path, pkg: Path) -> None:
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    register = "def register(name):\n    return lambda found: found\n"
    reads = """
        class Mine:
            def __init__(self, tokenizer):
                self.tokenizer = tokenizer

            def __call__(self, data):
                return [row["messages"] for row in data.non_tensor_batch["messages"]]
        """
    text = manager_hooks.adapted("mine", "x.py", "Mine", "from .from_run.mine import Mine", "None")
    hook = File("pkg/custom/verl_reward_manager.py", FileKind.HOOK, text.encode())
    own = File("pkg/custom/from_run/own_settings.py", FileKind.HOOK, templates.render("own_settings.py").encode())
    copy = File("pkg/custom/from_run/mine.py", FileKind.HOOK, dedent(reads).encode())
    vendored = "pkg/vendored/workers/reward_manager/registry.py"
    core = File(vendored, FileKind.VENDORED, register.encode(), "verl/workers/reward_manager/registry.py")
    taken = surroundings.take(recipient(checkout(tmp_path, {}), {}, hook, own, copy, core), {})
    assert [item.value for item in taken.remarks if item.what == "changed"] == ["messages"]
    written(taken.tree, pkg)

    class Tokenizer:
        def decode(self, tokens: Any, skip_special_tokens: bool = False) -> str:
            return "".join(chr(int(token)) for token in tokens)

    class Batch(SimpleNamespace):
        def __len__(self) -> int:
            return 2

    asked = numpy.empty(2, dtype=object)
    asked[:] = [({"role": "user", "content": "hi"},)] * 2
    batch = {
        "prompts": torch.tensor([[0, 63]] * 2),
        "responses": torch.tensor([[97, 98, 99, 100], [101, 0, 0, 0]]),
        "attention_mask": torch.tensor([[0, 1, 1, 1, 1, 1], [0, 1, 1, 0, 0, 0]]),
        "response_mask": torch.tensor([[1, 0, 0, 1], [1, 0, 0, 0]]),
    }
    manager = importlib.import_module("pkg.custom.verl_reward_manager").RunRewardManager(tokenizer=Tokenizer())
    rows = manager(Batch(batch=batch, meta_info={}, non_tensor_batch={"raw_prompt": asked}))
    said = [[(item["role"], item["content"]) for item in row] for row in rows]
    assert said[0] == [("user", "hi"), ("assistant", "a"), ("tool", "bc"), ("assistant", "d")]
    assert said[1] == [("user", "hi"), ("assistant", "e")]
    del batch["response_mask"]
    columns: dict[str, Any] = {}
    rows = manager(Batch(batch=batch, meta_info={}, non_tensor_batch=columns), return_dict=True)["reward_tensor"]
    assert columns == {}  # what is trained on is as it was
    assert [(item["role"], item["content"]) for item in rows[0]] == [("user", "?"), ("assistant", "abcd")]


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("folder", ["helpers", "verl/utils/reward_score/code_utils"])
def test_a_copy_of_pyext_is_not_needed_wherever_it_lies(tmp_path: Path, folder: str) -> None:
    module = folder.replace("/", ".")
    pyext = "import inspect\nbefore = inspect.getargspec\n\nclass RuntimeModule:\n    pass\n"
    text = f"from {module}.pyext2 import RuntimeModule\n\ndef score(x):\n    return RuntimeModule.from_string(x)\n"
    copying = recipient(checkout(tmp_path, {f"{folder}/pyext2.py": pyext}), {}).copying()
    found = copying.copy(text, ("score",))
    assert "from pkg.custom.from_run.runtime_module import RuntimeModule" in found.text
    assert list(copying.files) == ["custom/from_run/runtime_module.py"]
