"""Runs in a process of its own, in a project: a step of every preset, and what each of them computed with.

python driver.py PACKAGE PRESET...
"""

import functools
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.modules["matplotlib"] = None  # type: ignore[assignment]  # a plot for each preset would take half of the time
SIZES = (
    "data.train_batch_size=8",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64",
    "trainer.total_training_steps=1",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.logger=[console]",
    "algorithm.filter_groups.max_num_gen_batches=0",
)


def noted(name: str, function: Any, called: set[str]) -> Any:
    """The function, which leaves its name in `called` when it is called."""

    @functools.wraps(function)  # it stays one of verl's own, whose calls the project does not check
    def call(*arguments: Any, **named: Any) -> Any:
        called.add(name)
        return function(*arguments, **named)

    return call


def note_calls(core: Any, estimators: set[str], losses: set[str]) -> None:
    """Have the functions of the registries leave their names; 0.4.0, which has none, calls its estimators by theirs."""
    if not hasattr(core, "ADV_ESTIMATOR_REGISTRY"):
        for attribute, function in list(vars(core).items()):
            named = re.fullmatch(r"compute_(?!grpo_outcome)(\w+)_outcome_advantage", attribute)
            if named:
                setattr(core, attribute, noted(named[1], function, estimators))
        return
    for registry, called in ((core.ADV_ESTIMATOR_REGISTRY, estimators), (core.POLICY_LOSS_REGISTRY, losses)):
        for name, function in list(registry.items()):
            registry[name] = noted(name, function, called)


def main(package: str, presets: list[str]) -> None:
    sys.path.insert(0, str(Path.cwd()))
    run = importlib.import_module("main").main
    core = importlib.import_module(f"{package}.vendored.algorithms.core_algos")
    estimators: set[str] = set()
    losses: set[str] = set()
    note_calls(core, estimators, losses)
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
