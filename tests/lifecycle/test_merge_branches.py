"""Branches of a project at two releases, merged with Git."""

import shutil
import subprocess
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.project import base, lock
from extractor.usecases import diff
from tests.lifecycle.releases import Configuration, generated, options_of
from tests.lifecycle.worlds import create, git

pytestmark = pytest.mark.slow
CORE, LOSSES = "toy/vendored/algorithms/core_algos.py", "toy/vendored/algorithms/losses.py"
LINE = "    negative_approx_kl = log_prob - old_log_prob\n"
NEW = "0.9.1"


def edit(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text(encoding="utf-8")
    assert old in text
    (root / path).write_text(text.replace(old, new, 1), encoding="utf-8")
    git(root, "commit", "-qam", new.strip())


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, verl: None) -> Path:
    """`old` has two more edits at verl 0.6.1, `new` was upgraded and has others; one edit they have in common."""
    choice = Configuration("0.6.1")
    root = create(tmp_path_factory.mktemp("merged") / "team/toy", generated(choice).tree, options_of(choice))
    git(root.parent, "init", "-q", "-b", "main")
    (root.parent / "beside.txt").write_text("one\n")
    git(root.parent, "add", "-A")
    git(root, "commit", "-qm", "all")
    edit(root, CORE, LINE, LINE.replace("\n", "  # common\n"))
    git(root, "checkout", "-qb", "old")
    edit(root, CORE, "def agg_loss(", "OLD = 1\n\n\ndef agg_loss(")
    edit(root, "toy/custom/algorithms.py", "import numpy", "import math\n\nimport numpy")
    git(root, "checkout", "-qb", "new", "main")
    assert command(["upgrade", str(root), "--to", NEW]) == 0
    git(root.parent, "add", "-A")
    git(root, "commit", "-qm", "upgrade")
    edit(root, LOSSES, "    metrics = {}\n", "    metrics = {}  # new\n")
    edit(root.parent, "beside.txt", "one", "two")
    git(root, "checkout", "-q", "old")
    return root.parent


@pytest.fixture
def root(team: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(team, tmp_path / "team")) / "toy"


@pytest.mark.thorough
def test_both_sides_edits_are_in_the_newer_release(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["merge", "new", "--project", str(root)]) == 0, capsys.readouterr()
    git(root, "commit", "-qm", "merged")
    assert git(root, "log", "-1", "--format=%P").count(" ") == 1
    assert lock.read(root).options.verl == NEW
    core = (root / CORE).read_text(encoding="utf-8")
    assert "OLD = 1" in core
    assert "# common" in core
    assert "# new" in (root / LOSSES).read_text(encoding="utf-8")
    assert "import math" in (root / "toy/custom/algorithms.py").read_text(encoding="utf-8")
    assert (root.parent / "beside.txt").read_text() == "two\n"
    assert git(root, "status", "--porcelain") == ""
    locked = lock.read(root)
    assert set(diff.list_edits(root, locked, base.read(root, locked))) == {CORE, LOSSES}


def test_a_merge_that_git_has_begun_conflicts_where_the_edits_meet(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, said in (
        ([], "no merge is going on"),
        (["nowhere"], "Git knows no such commit"),
        (["main"], "nothing to merge"),
    ):
        assert command(["merge", *arguments, "--project", str(root)]) == 2
        assert said in capsys.readouterr().err
    readme = (root / "README.md").read_bytes()
    (root / "README.md").write_text("mine")
    assert command(["merge", "new", "--project", str(root)]) == 2
    assert "uncommitted changes" in capsys.readouterr().err
    (root / "README.md").write_bytes(readme)
    common = LINE.replace("\n", "  # common\n")
    edit(root, CORE, common, LINE.replace("log_prob -", "2 * log_prob -"))
    assert command(["add", "critic", "--project", str(root)]) == 0
    assert command(["merge", "--driver"]) == 0
    (setup,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("git config"))
    subprocess.run(setup, shell=True, cwd=root, check=True)  # the command that a reader would type
    git(root, "add", "-A")
    git(root, "commit", "-qm", "critic")
    git(root, "checkout", "-q", "new")
    edit(root, CORE, common, LINE.replace("log_prob -", "3 * log_prob -"))
    git(root, "checkout", "-q", "old")
    assert "run vextract merge" in git(root, "merge", "new", code=1)
    lock.read(root)
    capsys.readouterr()
    assert command(["merge", "--project", str(root)]) == 1
    (shown,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("conflict"))
    assert shown.startswith(f"conflict  {CORE}  (line ")
    assert git(root, "diff", "--name-only", "--diff-filter=U").split() == [f"toy/{CORE}"]
    assert "# new" in (root / LOSSES).read_text(encoding="utf-8")
    assert "import math" in (root / "toy/custom/algorithms.py").read_text(encoding="utf-8")
    assert (root.parent / "beside.txt").read_text() == "two\n"
    merged = lock.read(root).options
    assert (merged.verl, merged.features) == (NEW, ("critic",))
    git(root, "merge", "--abort")
    assert lock.read(root).options.verl == "0.6.1"
