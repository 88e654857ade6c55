"""Projects of the former layout, made by the code of that time: an upgrade moves their files, with their owner's edits.

That code comes from this repository's history. In a shallow clone the tests that need it are skipped; those of small
projects, at the end, run everywhere.
"""

import ast
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.pipeline.plan import Reason, Verdict
from extractor.project import lock
from extractor.usecases.upgrade.layout import relocate
from extractor.usecases.upgrade.verdicts import UpgradeInputs, look, plan_upgrade
from extractor.values import resources
from extractor.values.moves import map_former_modules, rename_module, rename_path
from extractor.values.tree import FileKind, Tree
from tests.lifecycle.worlds import (
    LABELS,
    OLD,
    carry_out,
    create,
    files_of,
    lock_of,
    replace_once,
    template,
    text,
    vendored,
)
from tests.project.running import python, train
from tests.releases import LAST_WITH_ENGINES_IN_PROCESS, NEWEST, OF_BOTH_KINDS

REPOSITORY = Path(__file__).parents[2]
# The last commit before the layout changed.
BEFORE = "18a68d028af503e23a82722b43aebb7fd336bb9f"
# The last commit before features were taken out of the default project, which had 30,550 lines of ours.
LARGE = "6c0d83f2ce72c2eaf2c8c496ac1990819cbbdc93"
# What a conflict's lines were, and what they are now.
CONFLICT = re.compile(r"^\|{7} .*?\n(.*?)^={7}\n(.*?)^>{7} ", re.DOTALL | re.MULTILINE)


def _code(commit: str, folder: Path) -> Path:
    """Return the vextract of that commit."""
    done = subprocess.run(["git", "-C", REPOSITORY, "archive", commit], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this checkout is shallow and has no {commit[:7]}: git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def former_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vextract of that time."""
    return _code(BEFORE, tmp_path_factory.mktemp("former"))


@pytest.fixture(scope="module")
def former(former_code: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a project of a release with it, once."""
    folder = tmp_path_factory.mktemp("made")
    return cache(lambda release: _made(former_code, folder / release / "toy", release))


def _made(code: Path, target: Path, release: str) -> Path:
    target.parent.mkdir()
    subprocess.run(
        [sys.executable, "-m", "extractor", "new", target, "--verl", release, "--offline"],
        cwd=code,
        env={**os.environ, "PYTHONPATH": str(code)},
        check=True,
        capture_output=True,
    )
    return target


@pytest.mark.network
@pytest.mark.thorough
@pytest.mark.parametrize("release", OF_BOTH_KINDS)
def test_an_untouched_project_becomes_a_fresh_one(
    former: Callable[[str], Path], release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = former(release)
    project, fresh = Path(shutil.copytree(made, tmp_path / "upgraded/toy")), tmp_path / "fresh/toy"
    assert command(["upgrade", str(project), "--to", release, "--offline"]) == 0
    assert "no conflicts" in capsys.readouterr().out
    features = ["--with", "former_names"] if "former_names" in lock.read(project).options.features else []
    assert command(["new", str(fresh), "--verl", release, "--offline", *features]) == 0
    after, expected = files_of(project), files_of(fresh)
    # Hooks are written once: they say where they import from, and the former names go on working.
    for file in lock.read(fresh).files:
        if file.kind is FileKind.HOOK:
            its_own = made / file.path
            assert after[file.path] == (its_own if its_own.is_file() else fresh / file.path).read_bytes()
            after[file.path] = expected[file.path]
    assert after == expected
    assert not [folder for folder in project.rglob("*") if folder.is_dir() and not any(folder.iterdir())]


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.thorough
def test_edits_go_where_their_files_go(former: Callable[[str], Path], tmp_path: Path) -> None:
    project = Path(shutil.copytree(former(NEWEST[-1]), tmp_path / "toy"))
    package = project / "toy"
    replace_once(package / "training/core_algos.py", "\ndef agg_loss(", "\nMINE_1 = 1\n\n\ndef agg_loss(")
    replace_once(package / "training/watch.py", "import threading\n", "import threading  # MINE_2\n")
    replace_once(
        package / "training/trainer.py",
        "from .distributed import Ranks, random_state,",
        "from .config_loading import load_config  # MINE_3\nfrom .distributed import Ranks, random_state,",
    )
    with (package / "training/distributed.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\ndef mine() -> str:\n    from ..utils.device import get_device_name\n\n    return get_device_name()\n"
        )
    with (project / "Makefile").open("a", encoding="utf-8") as file:
        file.write("\nwhere:\n\techo toy/training/core_algos.py toy.training.distributed\n")
    (package / "training/own.py").write_text(
        "from . import reward_keys\nfrom .distributed import mine\nfrom ..protocol import DataProto\n", encoding="utf-8"
    )
    hooks = files_of(package / "custom")
    assert command(["upgrade", str(project), "--to", NEWEST[-1], "--offline"]) == 0
    assert files_of(package / "custom") == hooks
    assert "MINE_1" in (package / "vendored/algorithms/core_algos.py").read_text(encoding="utf-8")
    assert "MINE_2" in (package / "run/watch.py").read_text(encoding="utf-8")
    trainer = (package / "training/trainer.py").read_text(encoding="utf-8")
    assert "from ..settings.loading import load_config" in trainer
    assert "from ..vendored.utils.device import get_device_name" in (package / "run/distributed.py").read_text()
    assert "echo toy/vendored/algorithms/core_algos.py toy.run.distributed" in (project / "Makefile").read_text()
    assert not (project / "orphaned").exists()
    code = "import toy.training.own as own, toy.run.distributed as now; assert own.mine is now.mine; own.mine()"
    done = python(project, "-c", code)
    assert done.returncode == 0, done.stderr
    assert train(project, "trainer.total_training_steps=1")[-1]["training/global_step"] == 1
    assert command(["upgrade", str(project), "--to", NEWEST[-1], "--offline"]) == 0
    assert command(["status", str(project), "--check"]) in (0, 1)


@pytest.mark.network
@pytest.mark.thorough
def test_another_release_comes_at_the_same_time(former: Callable[[str], Path], tmp_path: Path) -> None:
    project = Path(shutil.copytree(former(LAST_WITH_ENGINES_IN_PROCESS), tmp_path / "toy"))
    actor = "class DataParallelPPOActor"
    replace_once(project / "toy/workers/dp_actor.py", actor, f"# MINE_1\n{actor}")
    replace_once(project / "toy/training/plots.py", "import math\n", "import math  # MINE_2\n")
    assert command(["upgrade", str(project), "--to", NEWEST[-1], "--offline"]) == 0
    assert b"MINE_1" in (project / "orphaned/toy/vendored/workers/dp_actor.py").read_bytes()
    assert not (project / "toy/workers/dp_actor.py").exists()
    assert b"MINE_2" in (project / "toy/tracking/plots.py").read_bytes()


@pytest.mark.network
@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_edits_all_over_a_large_project_are_all_there_after_an_upgrade(seed: int, tmp_path: Path) -> None:
    project = _made(_code(LARGE, tmp_path / "code"), tmp_path / "made/toy", NEWEST[-1])
    own = [path for path in sorted((project / "toy").rglob("*.py")) if not {"vendored", "custom"} & set(path.parts)]
    draw, marks = random.Random(seed), []
    for path in own:
        text = path.read_text(encoding="utf-8")
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        functions = [node for node in functions if node.body[-1].lineno > node.lineno]  # a stub has no room for an edit
        if functions:
            last = draw.choice(functions).body[-1]
            lines = text.split("\n")
            lines.insert(last.lineno - 1, f"{' ' * last.col_offset}mine = {len(marks)}  # MINE_{len(marks)}")
            path.write_text("\n".join(lines), encoding="utf-8")
            marks.append(f"# MINE_{len(marks)}\n")
    assert len(marks) > 200
    assert command(["upgrade", str(project), "--to", NEWEST[-1], "--offline"]) in (0, 1)
    texts = {path: path.read_text(encoding="utf-8") for path in project.rglob("*.py")}
    found = {mark: next((path for path, text in texts.items() if mark in text), None) for mark in marks}
    assert None not in found.values()
    parked = [path for path in found.values() if path is not None and "orphaned" in path.parts]
    conflicts = {path: CONFLICT.findall(text) for path, text in texts.items() if "<<<<<<<" in text}
    assert len(parked) < len(marks) / 4, parked  # of code that is nowhere any more
    assert len(conflicts) < len(marks) / 3, [*conflicts]  # nearly every function has changed since
    assert all(base != theirs for found in conflicts.values() for base, theirs in found)
    assert all(conflicts.values())


# The rules, in small

FORMER = Tree.of(
    [
        template("toy/training/watch.py", text("# vextract:template", "x = 1")),
        template("toy/training/config_loading.py", text("# vextract:template", "from . import reward_keys, trainer")),
        vendored("utils/device.py", text("# vextract:vendored", "from ..protocol import DataProto")),
        template("main.py", text("# vextract:template", "from toy.training.watch import f")),
    ]
)
TODAY = Tree.of(
    [
        template("toy/run/watch.py", text("# vextract:template", "x = 2")),
        template("toy/settings/loading.py", text("# vextract:template", "from ..training import trainer")),
        vendored("vendored/utils/device.py", text("# vextract:vendored", "from ..protocol import DataProto"), "u"),
        template("main.py", text("# vextract:template", "from toy.run.watch import f")),
    ]
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create(tmp_path / "toy", FORMER, OLD)


def _upgraded(project: Path, former: Tree = FORMER, today: Tree = TODAY) -> dict[str, tuple[Verdict, Reason]]:
    old = lock_of(former, OLD)
    base = {file.path: file.data for file in former}
    found = look(project, {file.path for file in (*former, *today)})
    layout = relocate(old, base, found, {file.path for file in today})
    plan = layout.placed(plan_upgrade(UpgradeInputs(layout.lock, layout.base, today, layout.disk, {}, LABELS)))
    return carry_out(plan, project)


def test_what_nobody_has_edited_is_moved(project: Path) -> None:
    verdicts = _upgraded(project)
    assert verdicts["toy/training/watch.py"] == (Verdict.DELETE, Reason.MOVED)
    assert verdicts["toy/vendored/utils/device.py"] == (Verdict.UPDATE, Reason.MOVED)  # it is as it was
    assert all((project / file.path).read_bytes() == file.data for file in TODAY)
    assert not any((project / file.path).exists() for file in FORMER if file.path != "main.py")


def test_edits_that_clash_are_a_conflict_in_the_new_place(project: Path) -> None:
    (project / "toy/training/watch.py").write_bytes(text("# vextract:template", "x = 3  # mine"))
    assert _upgraded(project)["toy/run/watch.py"] == (Verdict.CONFLICT, Reason.BOTH)
    assert b"mine" in (project / "toy/run/watch.py").read_bytes()
    assert not (project / "toy/training/watch.py").exists()


def test_imports_that_the_owner_wrote_follow(project: Path) -> None:
    mine = (
        "# vextract:template\nfrom . import reward_keys, trainer\n\n\ndef f():\n"
        "    from .watch import (  # mine\n        g,\n    )\n    import toy.utils.device as device\n\n"
        "    return g, device\n"
    )
    (project / "toy/training/config_loading.py").write_text(mine, encoding="utf-8")
    (project / "toy/utils/device.py").write_bytes(
        text("# vextract:vendored", "from ..protocol import DataProto", "x = 1")
    )
    _upgraded(project)
    after = (project / "toy/settings/loading.py").read_text(encoding="utf-8")
    assert "    from ..run.watch import (  # mine\n        g,\n    )\n" in after
    assert "import toy.vendored.utils.device as device" in after
    assert (
        (project / "toy/vendored/utils/device.py").read_bytes().endswith(b"from ..protocol import DataProto\nx = 1\n")
    )


def test_what_its_owner_put_there_or_took_away_stays_so(project: Path) -> None:
    twin = Path(shutil.copytree(project, project.parent / "twin"))
    (project / "toy/run").mkdir()
    (project / "toy/run/watch.py").write_bytes(b"mine\n")
    assert _upgraded(project)["toy/run/watch.py"] == (Verdict.CONFLICT, Reason.IN_THE_WAY)
    assert (project / "toy/run/watch.py").read_bytes() == b"mine\n"
    (twin / "toy/training/watch.py").unlink()
    assert _upgraded(twin)["toy/run/watch.py"] == (Verdict.KEEP, Reason.REMOVED)
    assert not (twin / "toy/run/watch.py").exists()


def test_no_name_of_today_is_a_former_one() -> None:
    for former_name, now in map_former_modules().items():
        assert rename_module(now) == now, former_name
        place = f"__package__/{former_name.replace('.', '/')}.py"
        assert not list(resources.find_templates().glob(f"**/{place}")), f"{former_name} is a module again"
    assert rename_path("utils/__init__.py") == "vendored/utils/__init__.py"
    assert rename_path("utils/notes.md") == "utils/notes.md"
