"""Train a few steps with engines that are right, or wrong in one way, and print what the watch says (run in a project).

Its input is a JSON object: for each case its name, what is wrong with the engine, and settings.
"""

import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))

PACKAGE = "toy"


def spoil(engine: Any, wrong: str) -> None:
    """Make something wrong with an engine that writes by transformers."""
    if wrong == "temperature":
        engine.config.temperature = 0.55
    if wrong == "stale":  # it has a copy of the weights, and does not take over updates
        engine.shares_weights = False
        engine.model = engine.module.model = engine._whole_copy()
        engine.sync_weights()
        engine.sync_weights = lambda: None


def train(project: Any, wrong: str, settings: list[str]) -> dict[str, Any]:
    """Train, and return what was said, the metrics of the watch for each step, and a digest of the weights.

    And for each rollout whether the engine gave log-probabilities.
    """
    given: list[bool] = []
    said: list[str] = []
    rows: list[dict[str, float]] = []
    with project.LocalPPOTrainer(project.load_config(*settings)) as trainer:
        trainer.watch.say = said.append
        spoil(trainer.rollouts.engine, wrong)
        engine = trainer.rollouts.engine
        write = engine.generate_sequences

        def noting(*arguments: Any, **settings: Any) -> Any:
            output = write(*arguments, **settings)
            columns = output.batch.keys()
            given.append("rollout_log_probs" in columns)
            return output

        engine.generate_sequences = noting
        rows.extend(dict(step.metrics) for step in trainer.steps())
        digest = hashlib.sha256()
        for weight in trainer.policy.module.parameters():
            digest.update(weight.detach().numpy().tobytes())
    watched = [{name: row[name] for name in row if name.startswith("training/rollout_")} for row in rows]
    return {"said": said, "given": given, "watched": watched, "weights": digest.hexdigest()}


def main() -> None:
    """Train every case that stdin asks for."""
    project = importlib.import_module(PACKAGE)
    found = {name: train(project, wrong, settings) for name, (wrong, settings) in json.load(sys.stdin).items()}
    print(json.dumps(found))


main()
