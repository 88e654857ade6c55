"""Modules of ours that moved, and functions that stand in another module now: edits of them go along."""

import re
import shutil
from pathlib import Path

import pytest

from extractor.pipeline.plan import Reason, Verdict
from extractor.project import lock
from extractor.usecases.upgrade.layout import follow_moved_code, relocate
from extractor.usecases.upgrade.moved_files import Successor
from extractor.usecases.upgrade.verdicts import UpgradeInputs, plan_upgrade, read_files_on_disk
from extractor.values import resources
from extractor.values.moved_modules import map_former_modules, rename_module, rename_path
from extractor.values.tree import Tree
from tests.lifecycle.worlds import LABELS, OLD, carry_out, create, replace_once, template, templates, text, vendored

HEADER = "# vextract:template x - edit freely\n"
QUIET = f'''{HEADER}"""Quiet."""

import os

from ..errors import ConfigError

LIMIT = 3


def quiet(text):
    if not text:
        raise ConfigError("no text")
    return text.lower()


def other():
    return os.sep
'''
LOOPS = f'''{HEADER}"""Loops."""

from ..errors import ConfigError, DataError


def run(task):
    raise DataError(task, ConfigError)
'''
# The two are one module now; `quiet` checks more than it did, and `other` has gone to a third.
PROCESS = (
    LOOPS.replace("Loops", "Processes").replace("\n\n\ndef run", "\n\nLIMIT = 3\n\n\ndef run")
    + """

def quiet(text):
    if not text.strip():
        raise ConfigError("no text")
    return text.lower()
"""
)
FILES = f'''{HEADER}"""Files."""

import sys


def there():
    return sys.path
'''
OTHER = "\n\ndef other():\n    return os.sep\n"
FILES_NOW = FILES.replace("import sys", "import os\nimport sys") + OTHER
SILENCE = "toy/run/silence.py"
FORMER = templates({SILENCE: QUIET, "toy/run/loops.py": LOOPS, "toy/files.py": FILES})
TODAY = templates({"toy/run/process.py": PROCESS, "toy/files.py": FILES_NOW})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create(tmp_path / "toy", FORMER, OLD)


def _upgrade(project: Path, today: Tree = TODAY, former: Tree = FORMER) -> dict[str, tuple[Verdict, Reason]]:
    old = lock.read(project)
    base = {file.path: file.data for file in former}
    found = read_files_on_disk(project, {file.path for file in (*former, *today)})
    layout = follow_moved_code(relocate(old, base, found, {file.path for file in today}), today, "toy")
    come = {path: Successor(places, same=False) for path, places in layout.carried.items()}
    plan = layout.placed(plan_upgrade(UpgradeInputs(layout.lock, layout.base, today, layout.disk, come, LABELS)))
    return carry_out(plan, project)


def _read(project: Path, name: str) -> str:
    return (project / name).read_text(encoding="utf-8")


def test_edits_go_to_the_modules_that_have_the_functions_now(project: Path) -> None:
    replace_once(project / SILENCE, "return text.lower()", "return text.upper()")
    replace_once(project / SILENCE, "return os.sep", "return os.sep * 2")
    untouched = create(project.parent / "untouched", FORMER, OLD)
    _upgrade(untouched)
    assert {path.relative_to(untouched).as_posix() for path in untouched.rglob("*.py")} == {it.path for it in TODAY}
    assert all((untouched / file.path).read_bytes() == file.data for file in TODAY)
    assert _upgrade(project)[SILENCE] == (Verdict.DELETE, Reason.CARRIED)
    assert _read(project, "toy/run/process.py") == PROCESS.replace("lower", "upper")
    assert _read(project, "toy/files.py") == FILES_NOW.replace("os.sep", "os.sep * 2")
    assert not (project / "orphaned").exists()


def test_two_modules_bring_edits_imports_and_functions_to_a_third(project: Path) -> None:
    replace_once(project / SILENCE, "import ConfigError", "import ConfigError, Warned")
    replace_once(project / SILENCE, "return text.lower()", "return Warned(text)")
    replace_once(project / SILENCE, "LIMIT = 3\n", "LIMIT = 3\nMORE = 4\n\n\ndef mine():\n    return MORE\n")
    replace_once(project / "toy/run/loops.py", "\n\n\ndef run", "\nfrom ..files import there\n\n\ndef run")
    replace_once(project / "toy/run/loops.py", "raise DataError(task, ConfigError)", "return there()")
    assert _upgrade(project)[SILENCE] == (Verdict.DELETE, Reason.CARRIED)
    now = _read(project, "toy/run/process.py")
    names: dict[str, set[str]] = {}
    for module, bound in re.findall(r"^from (\S+) import (.*)$", now, re.MULTILINE):
        names.setdefault(module, set()).update(bound.split(", "))
    assert names["..files"] == {"there"}
    assert names["..errors"] >= {"ConfigError", "Warned"}
    for part in ("return Warned(text)", "return there()", "MORE = 4", "def mine():\n    return MORE\n"):
        assert part in now
    assert "<<<<" not in now


def test_edits_that_clash_and_files_in_the_way(project: Path) -> None:
    twin = Path(shutil.copytree(project, project.parent / "twin"))
    replace_once(project / SILENCE, "if not text:", "if text is None:")
    assert _upgrade(project)["toy/run/process.py"] == (Verdict.CONFLICT, Reason.BOTH)
    replace_once(twin / SILENCE, "return text.lower()", "return text.upper()")
    (twin / "toy/run/process.py").write_bytes(b"mine\n")
    assert _upgrade(twin)[SILENCE] == (Verdict.ORPHAN, Reason.GONE)
    assert _read(twin, "toy/run/process.py") == "mine\n"


def test_what_stands_nowhere_any_more_is_set_aside_and_the_rest_goes_along(project: Path) -> None:
    replace_once(project / SILENCE, "return text.lower()", "return text.upper()")
    replace_once(project / SILENCE, "return os.sep", "return os.sep * 2")
    today = templates({"toy/run/process.py": PROCESS, "toy/files.py": FILES})
    assert _upgrade(project, today)[SILENCE] == (Verdict.ORPHAN, Reason.GONE)
    assert "upper" in _read(project, "toy/run/process.py")
    assert "os.sep * 2" in _read(project, f"orphaned/{SILENCE}")
    assert "toy/run/process.py" in _read(project, f"orphaned/{SILENCE}.note")


def test_a_function_that_leaves_a_module_that_stays_takes_its_edit_along(project: Path) -> None:
    replace_once(project / "toy/files.py", "return sys.path", "return sys.path[1:]")
    process = PROCESS + "\n\ndef there():\n    return sys.path\n"
    files = f'{HEADER}"""Files."""\n\nSEP = "/"\n'
    _upgrade(project, templates({"toy/run/process.py": process, "toy/files.py": files}))
    assert "sys.path[1:]" in _read(project, "toy/run/process.py")
    assert "there" not in _read(project, "toy/files.py")


DEVICE = text("# vextract:vendored", "from ..protocol import DataProto")
FORMER_LAYOUT = Tree.of(
    [
        vendored("utils/device.py", DEVICE),
        template("toy/training/watch.py", text(HEADER, "x = 1")),
        template("toy/training/config_loading.py", text(HEADER, "from . import reward_keys, trainer")),
        template("main.py", text(HEADER, "from toy.training.watch import f")),
    ]
)
LAYOUT_OF_TODAY = Tree.of(
    [
        vendored("vendored/utils/device.py", DEVICE, "u"),
        template("toy/run/watch.py", text(HEADER, "x = 2")),
        template("toy/settings/loading.py", text(HEADER, "from ..training import trainer")),
        template("main.py", text(HEADER, "from toy.run.watch import f")),
    ]
)


def _relaid(project: Path) -> dict[str, tuple[Verdict, Reason]]:
    return _upgrade(project, LAYOUT_OF_TODAY, FORMER_LAYOUT)


def test_what_moved_whole_takes_edits_and_imports_along(tmp_path: Path) -> None:
    untouched, edited, taken, gone = (create(tmp_path / name, FORMER_LAYOUT, OLD) for name in "abcd")
    verdicts = _relaid(untouched)
    assert verdicts["toy/training/watch.py"] == (Verdict.DELETE, Reason.MOVED)
    assert verdicts["toy/vendored/utils/device.py"] == (Verdict.UPDATE, Reason.MOVED)  # it is as it was
    assert all((untouched / file.path).read_bytes() == file.data for file in LAYOUT_OF_TODAY)
    assert not any((untouched / file.path).exists() for file in FORMER_LAYOUT if file.path != "main.py")

    mine = (
        f"{HEADER}from . import reward_keys, trainer\n\n\ndef f():\n"
        "    from .watch import (  # mine\n        g,\n    )\n    import toy.utils.device as device\n\n"
        "    return g, device\n"
    )
    (edited / "toy/training/config_loading.py").write_text(mine, encoding="utf-8")
    with (edited / "toy/utils/device.py").open("a") as file:
        file.write("x = 1\n")
    (edited / "toy/training/watch.py").write_bytes(text(HEADER, "x = 3  # mine"))
    assert _relaid(edited)["toy/run/watch.py"] == (Verdict.CONFLICT, Reason.BOTH)
    assert "mine" in _read(edited, "toy/run/watch.py")
    assert not (edited / "toy/training/watch.py").exists()
    after = _read(edited, "toy/settings/loading.py")
    assert "    from ..run.watch import (  # mine\n        g,\n    )\n" in after
    assert "import toy.vendored.utils.device as device" in after
    assert _read(edited, "toy/vendored/utils/device.py").endswith("from ..protocol import DataProto\nx = 1\n")

    # What its owner put there or took away stays so.
    (taken / "toy/run").mkdir()
    (taken / "toy/run/watch.py").write_bytes(b"mine\n")
    assert _relaid(taken)["toy/run/watch.py"] == (Verdict.CONFLICT, Reason.IN_THE_WAY)
    assert (taken / "toy/run/watch.py").read_bytes() == b"mine\n"
    (gone / "toy/training/watch.py").unlink()
    assert _relaid(gone)["toy/run/watch.py"] == (Verdict.KEEP, Reason.REMOVED)
    assert not (gone / "toy/run/watch.py").exists()


def test_no_name_of_today_is_a_former_one() -> None:
    for former_name, now in map_former_modules().items():
        assert rename_module(now) == now, former_name
        place = f"__package__/{former_name.replace('.', '/')}.py"
        assert not list(resources.find_templates().glob(f"**/{place}")), f"{former_name} is a module again"
    assert rename_path("utils/__init__.py") == "vendored/utils/__init__.py"
    assert rename_path("utils/notes.md") == "utils/notes.md"
