"""An adapter learns what a model learns."""

import json
from pathlib import Path

import pytest

from tests.project.running import check_python
from tests.project.support import Configuration, make
from tests.releases import NEWEST

LORA = ("actor_rollout_ref.model.lora_rank=16", "actor_rollout_ref.model.lora_alpha=32")
LEARNING = "actor_rollout_ref.actor.optim.lr=0.005"  # more than twice what all weights learn with
LONGER = "trainer.total_training_steps=200"  # so few weights take twice the steps


@pytest.mark.thorough
@pytest.mark.parametrize("weights", [(), ("local.quantization.load_in_4bit=true",)], ids=["float32", "4 bits"])
def test_an_adapter_learns_the_toy_task(tmp_path: Path, weights: tuple[str, ...]) -> None:
    root = make(Configuration(NEWEST[-1], features=("qlora",)), tmp_path / "project").root
    run = tmp_path / "run"
    check_python(root, "main.py", *LORA, *weights, LEARNING, LONGER, f"trainer.default_local_dir={run}")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (name,) = {name for row in rows for name in row if name.startswith("val-core/")}
    scores = [row[name] for row in rows if name in row]
    assert scores[0] < 0.2
    # Of states that were held out it gets 0.7 to 1.0 right in the end, by the seed; of those it trains on nearly all.
    assert scores[-1] >= 0.6
    rewards = [row["reward/score/mean"] for row in rows if "reward/score/mean" in row]
    assert max(rewards[:5]) < 0.3
    assert min(rewards[-5:]) >= 0.75
