"""What the multi-turn recipe learns in several turns, and what one turn can learn of the same game."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import training
from benchmarks.environment import on_one_thread

TARGET = 0.9
CHANCE = 0.2
ONE_TURN = (
    "actor_rollout_ref.rollout.multi_turn.enable=false",
    "data.max_response_length=2",
)


@dataclass(frozen=True)
class Learned:
    """Holds what a run has come to.

    Attributes:
        reward: mean over the last ten steps.
        accuracy: of the last validation: the share of the ten digits that greedy guesses find.
        steps: until the reward of a step was at least TARGET; None if it never was.
        seconds: spent in these steps, or in all.
    """

    reward: float
    accuracy: float
    steps: int | None
    seconds: float


def run() -> bool:
    """Print what was learned; True where several turns reach the target and one turn does not."""
    with tempfile.TemporaryDirectory() as folder:
        root = make_project(Path(folder) / "guess")
        several, one = train(root, "several"), train(root, "one", *ONE_TURN)
    print("A digit is hidden; the answers are higher and lower. Learned from scratch, on one thread.\n")
    print(f"| turns | reward at the end | digits found | steps to {TARGET} | seconds |")
    print("|---|---|---|---|---|")
    for name, learned in (("4", several), ("1", one)):
        steps = "-" if learned.steps is None else str(learned.steps)
        print(f"| {name} | {learned.reward:.2f} | {learned.accuracy:.0%} | {steps} | {learned.seconds:.0f} |")
    return several.accuracy >= TARGET and several.steps is not None and one.reward <= CHANCE


def make_project(root: Path) -> Path:
    """Make a project of the recipe, with the newest release."""
    return training.make_project(root, recipe="multiturn", package=root.name)


def train(root: Path, name: str, *settings: str) -> Learned:
    """Run `python main.py` in a project, with the recipe's own settings and these."""
    directory = root / name
    arguments = ["trainer.logger=[console]", f"trainer.default_local_dir={directory}", *settings]
    subprocess.run(
        [sys.executable, "main.py", *arguments], cwd=root, env=on_one_thread(), check=True, capture_output=True
    )
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    steps = [row for row in rows if row["step"] > 0]
    rewards = [row["critic/score/mean"] for row in steps]
    reached = next((index + 1 for index, reward in enumerate(rewards) if reward >= TARGET), None)
    return Learned(
        reward=sum(rewards[-10:]) / len(rewards[-10:]),
        accuracy=[row[key] for row in rows for key in row if key == "val-core/guess_digit/acc/mean@1"][-1],
        steps=reached,
        seconds=sum(row["timing_s/step"] for row in steps[:reached]),
    )
