"""Projects that former code of this repository made: an upgrade moves their files, with their owner's edits.

That code comes from this repository's history. In a shallow clone these tests are skipped.
"""

import ast
import io
import os
import random
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.project import lock
from extractor.values.tree import FileKind
from tests.lifecycle.worlds import files_of
from tests.releases import NEWEST

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.thorough]
REPOSITORY = Path(__file__).parents[2]
# The last commit before the layout changed.
BEFORE = "18a68d028af503e23a82722b43aebb7fd336bb9f"
# The last commit before features were taken out of the default project, which had 30,550 lines of ours.
LARGE = "6c0d83f2ce72c2eaf2c8c496ac1990819cbbdc93"
# What a conflict's lines were, and what they are now.
CONFLICT = re.compile(r"^\|{7} .*?\n(.*?)^={7}\n(.*?)^>{7} ", re.DOTALL | re.MULTILINE)


def made_by(commit: str, folder: Path) -> Path:
    """A project as the vextract of a commit makes it."""
    done = subprocess.run(["git", "-C", REPOSITORY, "archive", commit], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this checkout is shallow and has no {commit[:7]}: git fetch --unshallow")
    code, target = folder / "code", folder / "made/toy"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(code, filter="data")
    target.parent.mkdir()
    subprocess.run(
        [sys.executable, "-m", "extractor", "new", target, "--verl", NEWEST[-1], "--offline"],
        cwd=code,
        env={**os.environ, "PYTHONPATH": str(code)},
        check=True,
        capture_output=True,
    )
    return target


def test_an_untouched_project_becomes_a_fresh_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project, fresh = made_by(BEFORE, tmp_path), tmp_path / "fresh/toy"
    before = files_of(project)
    assert command(["upgrade", str(project), "--to", NEWEST[-1], "--offline"]) == 0
    assert "no conflicts" in capsys.readouterr().out
    features = ["--with", "former_names"] if "former_names" in lock.read(project).options.features else []
    assert command(["new", str(fresh), "--verl", NEWEST[-1], "--offline", *features]) == 0
    after, expected = files_of(project), files_of(fresh)
    # Hooks are written once: they say where they import from, and the former names go on working.
    for file in lock.read(fresh).files:
        if file.kind is FileKind.HOOK:
            assert after[file.path] == before.get(file.path, expected[file.path])
            after[file.path] = expected[file.path]
    assert after == expected
    assert not [folder for folder in project.rglob("*") if folder.is_dir() and not any(folder.iterdir())]


@pytest.mark.parametrize("commit", [BEFORE, LARGE])
def test_edits_all_over_a_large_project_are_all_there_after_an_upgrade(commit: str, tmp_path: Path) -> None:
    project = made_by(commit, tmp_path)
    own = [path for path in sorted((project / "toy").rglob("*.py")) if not {"vendored", "custom"} & set(path.parts)]
    draw, marks = random.Random(1), []
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
    assert len(marks) > 150
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
