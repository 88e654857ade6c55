"""Copies of a checkout's files: only what is needed of a version of verl's, and what they count on around them."""

import ast
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

from extractor.importers.python_text.definitions import cut_needed_part, drop_imports, list_unused_imports
from extractor.importers.python_text.module_imports import Name, rewrite_imports
from extractor.importers.runs import imported_project
from extractor.importers.runs.copied_code.copying import Copied
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.run_folders import RunFolders
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import put
from tests.releases import NEWEST, source_of

REDIRECTED = {
    "from a.b import c": "from new.a.b import c",
    "from a import b as d, e": "from new.a import b as d\nfrom new.a import e",
    "def f():\n    from a import (\n        b,\n    )\n    return b": "def f():\n    from new.a import b\n    return b",
    "x = 'äöü'\nif x:\n    from a import b, c": "x = 'äöü'\nif x:\n    from new.a import b\n    from new.a import c",
    "import a.b as c": "import new.a.b as c",
    "import a.b\nx = a.b.c(a.b.d)": "import new.a.b as a_b\nx = a_b.c(a_b.d)",
    "x = 'ä'; import a.b": "x = 'ä'; import new.a.b as a_b",
    "from . import z": "from new.pack import z",
    "import os, a": "import os\nimport new.a as a",
    "from a import *": "from new.a import *",
}


def test_imports_are_redirected() -> None:
    def moved(name: Name) -> tuple[str, str | None] | None:
        return None if name.module == "os" else (f"new.{name.module}", name.name)

    for before, after in REDIRECTED.items():
        assert rewrite_imports(before, "pack.module", moved) == after


def checkout(folder: Path, files: dict[str, str]) -> RunFolders:
    return RunFolders((put(folder, {"setup.py": "", **{path: dedent(text) for path, text in files.items()}}),))


def recipient(places: RunFolders, settings: dict[str, Any], *more: File) -> TargetProject:
    hooks = [File(f"pkg/custom/{name}.py", FileKind.HOOK, b"") for name in ("algorithms", "reward_manager", "__init__")]
    tree = Tree.of([*hooks, *more])
    return TargetProject(tree, "pkg", source_of(NEWEST[-1]), places, settings, NEWEST[-1])


def scoring(folder: Path, files: dict[str, str], text: str) -> tuple[Copied, dict[str, str]]:
    """What comes of a function `score`, and the files that are copied with it."""
    copying = recipient(checkout(folder, files), {}).copying()
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


def test_what_a_module_hands_on_stays_in_it(tmp_path: Path) -> None:
    helpers = "from sympy_like import parsed\n\ndef half(x):\n    return x / 2\n"
    files = {"helpers.py": helpers, "before.py": "from helpers import half\n"}
    for taken in ("from helpers import half, parsed", "from helpers import *"):
        text = f"from before import half as other\n{taken}\n\ndef score(text):\n    return half(parsed(other(text)))\n"
        found, copied = scoring(tmp_path, files, text)
        assert found.packages == ("sympy_like",)
        assert "from sympy_like import parsed" in copied["custom/from_run/helpers.py"]


def test_what_is_copied_twice_serves_both(tmp_path: Path) -> None:
    places = checkout(tmp_path, {"helpers.py": "from sympy_like import parsed\n\ndef half(x):\n    return x / 2\n"})
    texts = ["from helpers import half\nhalf(1)\n", "from helpers import parsed\nparsed(1)\n"]
    for order in (texts, texts[::-1]):
        project = recipient(places, {})
        for text in order:
            copying = project.copying()
            copying.copy(text, ())
            project = replace(project, tree=project.add_hooks(copying.files, {}))
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


def test_of_a_module_that_cannot_be_had_what_is_needed_is_copied(tmp_path: Path) -> None:
    text = "from first import one\nfrom verl.helpers import third\n\ndef score(text):\n    return third(one())\n"
    for use in ("from verl.helpers import half\nhalf(1)", "import verl.helpers as h\nh.half(1)"):
        files = {"verl/helpers.py": HELPERS, "first.py": f"{use}\n\ndef one():\n    return 1\n"}
        copying = recipient(checkout(tmp_path, files), {}).copying()
        found = copying.copy(text, ("score",))
        assert found.missing == found.packages == ()
        helpers = copying.files["custom/from_run/verl/helpers.py"]
        assert [part in helpers for part in ("def half", "def third", "ray", "sympy_like")] == [
            True,
            True,
            False,
            False,
        ]
        parses = "from verl.helpers import parsed\n\ndef score(text):\n    return parsed(text)\n"
        assert copying.copy(parses, ("score",)).packages == ("sympy_like",)
        assert "def third" in copying.files["custom/from_run/verl/helpers.py"]  # one file serves both
        judges = "from verl.helpers import Judge\n\ndef score(text):\n    return Judge(text)\n"
        assert copying.copy(judges, ("score",)).missing == ("verl.helpers: it imports ray: no project has it",)


def test_a_long_chain_of_parts_is_looked_at_once(tmp_path: Path) -> None:
    files = {
        f"m{number}.py": f"from ray.util import queue\nfrom m{number + 1} import f{number + 1}\n\n\ndef f{number}():\n"
        f"    return f{number + 1}()\n\n\n@queue.x\nclass Judge:\n    pass\n"
        for number in range(25)
    }
    text = "from m0 import f0\n\ndef score(text):\n    return f0()\n"
    for last, packages in (
        ("def f25():\n    return 1\n", ()),
        ("from nowhere_here.x import f25\n", ("nowhere_here",)),
    ):
        found, _ = scoring(tmp_path, {**files, "m25.py": last}, text)
        assert (found.missing, found.packages) == ((), packages)


def test_what_a_fork_has_added_to_a_module_of_verls_is_named(tmp_path: Path) -> None:
    files = {"verl/utils/torch_functional.py": "def mine(x):\n    return x\n"}
    module = "verl.utils.torch_functional"
    for use in (f"from {module} import mine", f"import {module} as F\nmine = F.mine"):
        found, _ = scoring(tmp_path, files, f"{use}\n\ndef score(text):\n    return mine(text)\n")
        assert found.missing == (f"{module}: it has no mine",)


def test_what_is_not_needed_is_left_out_without_holes() -> None:
    for text, kept in (
        ("import a\nimport b\n\n\ndef f():\n    return a.x\n\n\nb.login()\n", "import a\n\n\ndef f():"),
        ("import a\na.login()\n\ndef f():\n    return a.x\n", "import a\na.login()\n\ndef f():"),
        ("REG = {}\nREG.update(x=1)\nOTHER = {}\nOTHER.update(x=1)\n\ndef f():\n    return REG\n", "REG.update(x=1)"),
        ("for x in (1, 2):\n    OTHER = x\n\ndef f():\n    return [x for x in (3, 4)]\n", "def f():"),
        ("def g():\n    return h()\n\n# of h\ndef h():\n    pass\n\ndef f():\n    pass\n", "def f():"),
    ):
        found = cut_needed_part(text, ["f"])
        assert kept in found
        assert not any(gone in found for gone in ("b.login", "OTHER", "def g", "def h", "# of h")), found
        ast.parse(found)
    parts = ["a = 1", "def f():\n    return a", "# of b\nb = 2", "def g():\n    return b", "def h():\n    return f"]
    text = "\n\n\n".join(parts) + "\n"
    for name, needed in (("h", [parts[0], parts[1], parts[4]]), ("g", [parts[2], parts[3]])):
        assert cut_needed_part(text, [name]) == "\n\n\n".join(needed) + "\n"


def test_imports_that_share_a_line_or_are_exported_stay() -> None:
    text = "import a; x = 1\nimport b\n__all__ = ['b']\nimport c.d\nc.d.e()\nimport f\n"
    assert drop_imports(text, list_unused_imports(text)) == text.removesuffix("import f\n")


def test_a_copy_of_pyext_is_not_needed_wherever_it_lies(tmp_path: Path) -> None:
    pyext = "import inspect\nbefore = inspect.getargspec\n\nclass RuntimeModule:\n    pass\n"
    for folder in ("helpers", "verl/utils/reward_score/code_utils"):
        module = folder.replace("/", ".")
        text = f"from {module}.pyext2 import RuntimeModule\n\ndef score(x):\n    return RuntimeModule.from_string(x)\n"
        found, copied = scoring(tmp_path, {f"{folder}/pyext2.py": pyext}, text)
        assert "from pkg.custom.from_run.runtime_module import RuntimeModule" in found.text
        assert list(copied) == ["custom/from_run/runtime_module.py"]


def test_variables_that_the_script_exports_and_copies_read_are_named(tmp_path: Path) -> None:
    text = b"import os\nURL, HOME = os.environ.get('URL', 'here'), os.environ['HOME']\nOTHER = os.getenv('OTHER')\n"
    project = recipient(RunFolders((tmp_path,)), {}, File("pkg/custom/verl_reward.py", FileKind.HOOK, text))
    (remark,) = imported_project.report_variables(project, {"URL": "there", "HOME": "/", "MORE": "1"})
    assert (remark.key, remark.what) == ("$URL", "to do")
    assert remark.why.startswith("pkg/custom/verl_reward.py reads it, and the run's script exports it")
