"""The committed example: restored by `vextract sync`, equal to its lock, and it learns."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from extractor.project import lock
from extractor.values.tree import FileKind
from tests.project.running import check_python

EXAMPLE = Path(__file__).resolve().parents[2] / "generated_example"


@pytest.fixture(scope="module")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as a clone has it, after `vextract sync`."""
    project = tmp_path_factory.mktemp("example") / "generated_example"
    locked = lock.read(EXAMPLE)
    committed = [file.path for file in locked.files if file.kind is not FileKind.VENDORED]
    for path in (*committed, lock.NAME):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(EXAMPLE / path, project / path)
    command = [sys.executable, "-m", "extractor", "sync", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nafter a change of templates or manifests: make example"
    return project


@pytest.mark.network
def test_sync_restores_every_file_of_the_lock(restored: Path) -> None:
    locked = lock.read(restored)
    found = {file.path: hashlib.sha256((restored / file.path).read_bytes()).hexdigest() for file in locked.files}
    assert found == {file.path: file.sha256 for file in locked.files}


def test_nothing_of_upstream_is_committed() -> None:
    """Not a file that an earlier slice had either, which the list of ignored files does not name."""
    vendored = [f"generated_example/{file.path}" for file in lock.read(EXAMPLE).files if file.kind is FileKind.VENDORED]
    for words, code in (
        (["ls-files", "--", *vendored, "generated_example/.vextract"], 0),
        (["grep", "-l", "-e", "^# vextract:vendored \\(from \\)\\?verl"], 1),
    ):
        found = subprocess.run(["git", *words], cwd=EXAMPLE.parent, capture_output=True, text=True, check=False)
        assert (found.returncode, found.stdout) == (code, "")


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.thorough
def test_the_example_learns(restored: Path) -> None:
    check_python(restored, "main.py", timeout=600)
    (metrics,) = restored.glob("checkpoints/**/metrics.jsonl")
    steps = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    rewards = [step["critic/score/mean"] for step in steps if "critic/score/mean" in step]
    held_out = [step[key] for step in steps for key in step if key.startswith("val-core/") and "held_out" in key]
    assert sum(rewards[:3]) / 3 < 0.2
    assert sum(rewards[-5:]) / 5 >= 0.9
    assert held_out[-1] >= 0.7
