"""Time new weights for an engine, and its sleep: `engine.py PACKAGE key=value ...`, in a project.

Prints seconds and bytes of a hand-over; and where the engine gives its memory back between rollouts, how much of the
device's memory is in use during a rollout and after it, and the seconds that waking and going to sleep take.
"""

import importlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from clock import now

ROUNDS = 4


def measure(package: str, settings: list[str]) -> dict[str, float]:
    """Return the medians."""
    project = importlib.import_module(package)
    config = project.load_config(*settings)
    with project.LocalPPOTrainer(config) as trainer:
        engine = trainer.rollouts.engine
        tensors = [weight for _, weight in trainer.policy.full_weights(device=None)]
        figures = {"bytes": float(sum(weight.numel() * weight.element_size() for weight in tensors))}
        del tensors
        rounds = [_round(engine) for _ in range(ROUNDS)][1:]
        figures |= {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        figures["frees"] = float(getattr(engine, "frees_memory", False))
    return figures


def _round(engine: Any) -> dict[str, float]:
    """Let the engine take new weights and write nothing."""
    engine.sync_weights()
    start = now()
    with engine.session():
        entered, during = now(), _in_use()
    left = now()
    return {"enter": entered - start, "leave": left - entered, "during": during, "after": _in_use()}


def _in_use() -> float:
    """Return the bytes of the device that any process uses; 0 on a CPU."""
    import torch

    if not torch.cuda.is_available():
        return 0.0
    free, total = torch.cuda.mem_get_info()
    return float(total - free)


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    figures = measure(sys.argv[1], sys.argv[2:])
    print(json.dumps(figures), flush=True)
