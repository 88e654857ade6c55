"""A run that goes on with other data or another order than its checkpoint's says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import forked, overrides
from tests.project.support import Configuration, Made
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
ROWS = [{"prompt": f"{a}{b}=", "ground_truth": "11"} for a in range(10) for b in range(4)]
OTHERS: dict[tuple[str, ...], list[str]] = {
    (): [],
    ("data.shuffle=false", "local.seed=7"): [
        "data.shuffle was True when the checkpoint was written, and is False",
        "local.seed was 1 when the checkpoint was written, and is 7",
    ],
    ("data.train_files=fewer.jsonl",): ["rows was 40 when the checkpoint was written, and is 30"],
}


def test_what_a_run_goes_on_with_otherwise_is_said(made: Callable[[Configuration], Made], tmp_path: Path) -> None:
    root = Path(shutil.copytree(made(Configuration(NEWEST[-1], "hf")).root, tmp_path / "project"))
    for name, rows in {"all": ROWS, "fewer": ROWS[:30]}.items():
        (root / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    files = ("data.train_files=all.jsonl", "data.val_files=all.jsonl", "data.env.name=null")
    settings = overrides(*files, "trainer.save_freq=1", "trainer.total_training_steps=1")
    done = forked(root, "main.py", *settings, "trainer.default_local_dir=first")
    assert done.returncode == 0, done.stderr[-3000:]
    for number, (others, said) in enumerate(OTHERS.items()):
        folder = f"again_{number}"
        shutil.copytree(root / "first", root / folder)
        more = (*others, f"trainer.default_local_dir={folder}", "trainer.total_training_steps=2")
        done = forked(root, "main.py", *settings, *more)
        assert done.returncode == 0, done.stderr[-3000:]
        notes = [line for line in done.stderr.splitlines() if line.startswith("note: ") and "no effect" not in line]
        assert len(notes) == len(said), notes
        for note, text in zip(notes, said, strict=True):
            assert note.startswith(f"note: {text}")
