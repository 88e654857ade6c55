"""Runs in a process of its own, in a project: two steps of every preset, and what each of them computed with.

python driver.py PACKAGE PRESET...
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.modules["matplotlib"] = None  # type: ignore[assignment]  # a plot for each preset would take half of the time
SIZES = (
    "data.train_batch_size=8",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64",
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.logger=[console]",
    "algorithm.filter_groups.max_num_gen_batches=0",
)


def noting(registry: dict[str, Any], called: set[str]) -> None:
    """Have every function of a registry leave its name when it is called."""

    def wrapped(name: str, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            called.add(name)
            return function(*arguments, **named)

        return call

    for name in list(registry):
        registry[name] = wrapped(name, registry[name])


def main(package: str, presets: list[str]) -> None:
    sys.path.insert(0, str(Path.cwd()))
    run = importlib.import_module("main").main
    core = importlib.import_module(f"{package}.training.core_algos")
    estimators: set[str] = set()
    losses: set[str] = set()
    noting(core.ADV_ESTIMATOR_REGISTRY, estimators)
    noting(core.POLICY_LOSS_REGISTRY, losses)
    found = {}
    for preset in presets:
        estimators.clear()
        losses.clear()
        folder = Path("runs") / preset
        code = run([f"preset={preset}", *SIZES, f"trainer.default_local_dir={folder}"])
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        found[preset] = {"code": code, "rows": rows, "estimators": sorted(estimators), "losses": sorted(losses)}
    Path("found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
