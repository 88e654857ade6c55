"""What watching the engine's log-probabilities costs, as a ratio of step time with and without (engine hf)."""

import statistics
from dataclasses import replace
from pathlib import Path

from benchmarks.training import (
    LONG,
    PEERS_PYTHON,
    SCRIPTS,
    TOY,
    Size,
    a_project,
    left_out,
    model_and_data,
    reported,
    settings_of,
)

ROUNDS = 4
# Enough steps that those are among them at which the watch has log-probabilities computed: the first two, each tenth.
SIZES = (replace(TOY, steps=41, warm_up=1), replace(LONG, steps=21, warm_up=1))
SWITCH = "local.rollout.mismatch.enable"


def run() -> bool:
    """Print the ratios. There is no limit to hold: `every` and `responses` say how much is looked at."""
    if not PEERS_PYTHON.exists():
        return left_out()
    print("| | step with the watch, against without (medians of pairs of runs) | least | most |")
    print("|---|---|---|---|")
    for size in SIZES:
        ratios = _ratios(size)
        name = f"{size.prompts} prompts x {size.generations} responses of {size.length} tokens"
        print(f"| {name} | {statistics.median(ratios):.2f}x | {min(ratios):.2f}x | {max(ratios):.2f}x |")
    return True


def _ratios(size: Size) -> list[float]:
    with a_project("watch") as project:
        model, data = model_and_data(project, size.shape)
        pairs = [[_step(size, project, model, data, watches) for watches in ("true", "false")] for _ in range(ROUNDS)]
    return [watched / plain for watched, plain in pairs]


def _step(size: Size, project: Path, model: Path, data: Path, watches: str) -> float:
    """Return the seconds of a step, on average: at most steps the watch computes nothing."""
    sizes = {"prompts": size.prompts, "generations": size.generations, "length": size.length}
    settings = settings_of(model, data, steps=size.steps, **sizes)
    steps = reported(project, str(SCRIPTS / "ours.py"), *settings, f"{SWITCH}={watches}")["steps"]
    return statistics.mean(steps[size.warm_up :])
