"""An adapter learns what a model learns, and vLLM writes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extractor.source import Source
from tests.models.projects import write_project
from tests.project.running import overrides, python

pytestmark = pytest.mark.slow

PACKAGE = "adapted"
LORA = ("actor_rollout_ref.model.lora_rank=16", "actor_rollout_ref.model.lora_alpha=32")
LEARNING = "actor_rollout_ref.actor.optim.lr=0.01"  # five times what all weights learn with


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.thorough
def test_an_adapter_learns_the_toy_task(newest_verl: Source, tmp_path: Path) -> None:
    root = write_project(newest_verl, PACKAGE, tmp_path / "project", features=("lora",))
    run = tmp_path / "run"
    done = python(root, "main.py", *LORA, LEARNING, f"trainer.default_local_dir={run}", "trainer.logger=[]")
    assert done.returncode == 0, done.stderr[-3000:]
    rows = metrics(run)
    (name,) = {name for row in rows for name in row if name.startswith("val-core/")}
    scores = [row[name] for row in rows if name in row]
    assert scores[0] < 0.2
    assert scores[-1] >= 0.9


@pytest.mark.vllm
@pytest.mark.thorough
def test_vllm_has_the_merged_weights_after_every_update(newest_verl: Source, tmp_path: Path) -> None:
    """Its log-probabilities are the policy's, before and after updates, on a model with tied embeddings."""
    pytest.importorskip("vllm")
    root = write_project(newest_verl, PACKAGE, tmp_path / "project", engine="vllm", features=("lora",))
    code = f"from {PACKAGE}.data.toy import ensure_toy_model; ensure_toy_model('tied', tie_word_embeddings=True)"
    assert python(root, "-c", code).returncode == 0
    run = tmp_path / "run"
    settings = overrides(
        "scale=toy",
        "trainer.total_training_steps=3",
        f"actor_rollout_ref.model.path={root / 'tied'}",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        f"trainer.default_local_dir={run}",
        *LORA,
        LEARNING,
    )
    done = python(root, "main.py", *settings)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = metrics(run)
    assert [row["training/rollout_probs_diff_max"] < 1e-4 for row in rows] == [True] * 3
    assert rows[0]["actor/grad_norm"] > 0
