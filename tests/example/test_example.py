"""The committed example: restored by `vextract sync`, equal to its lock, and it learns."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from extractor.project import lock
from extractor.values.tree import FileKind

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
    done = subprocess.run(
        [sys.executable, "-m", "extractor", "sync", str(project)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nafter a change of templates or manifests: make example"
    return project


@pytest.mark.network
def test_sync_restores_every_file_of_the_lock(restored: Path) -> None:
    import hashlib

    locked = lock.read(restored)
    found = {file.path: hashlib.sha256((restored / file.path).read_bytes()).hexdigest() for file in locked.files}
    assert found == {file.path: file.sha256 for file in locked.files}


def test_nothing_of_upstream_is_committed() -> None:
    locked = lock.read(EXAMPLE)
    vendored = [f"generated_example/{file.path}" for file in locked.files if file.kind is FileKind.VENDORED]
    listed = subprocess.run(
        ["git", "ls-files", "--", *vendored, "generated_example/.vextract"],
        cwd=EXAMPLE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout == ""


def test_no_vendored_file_is_committed_anywhere() -> None:
    """Not one that an earlier slice had either, which the list of ignored files does not name."""
    found = subprocess.run(
        ["git", "grep", "-l", "-e", "^# vextract:vendored \\(from \\)\\?verl"],
        cwd=EXAMPLE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1, found.stdout


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.thorough
def test_the_example_learns(restored: Path) -> None:
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=restored, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (metrics,) = restored.glob("checkpoints/**/metrics.jsonl")
    steps = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    rewards = [step["critic/score/mean"] for step in steps if "critic/score/mean" in step]
    held_out = [step[key] for step in steps for key in step if key.startswith("val-core/") and "held_out" in key]
    assert sum(rewards[:3]) / 3 < 0.2
    assert sum(rewards[-5:]) / 5 >= 0.9
    assert held_out[-1] >= 0.7
