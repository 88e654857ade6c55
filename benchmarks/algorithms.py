"""How many steps every preset of every release needs to learn the toy task."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.environment import on_one_thread
from benchmarks.training import make_project
from extractor.values import releases

TARGET = 0.9
MOST_STEPS = 200
WINDOW = 5
# pass@k pays the best of a group, and nobody once two are equally good: how good the best is, is what it learns, and
# in the preset's groups of eight two are equally good so soon that it stays at 0.7.
PASS_AT_K = "grpo_passk"
PASS_AT_K_SETTINGS = (
    "actor_rollout_ref.rollout.n=4",
    "trainer.test_freq=10",
    "actor_rollout_ref.rollout.val_kwargs.n=8",
    "actor_rollout_ref.rollout.val_kwargs.do_sample=true",
    "actor_rollout_ref.rollout.val_kwargs.temperature=1",
)


def run() -> bool:
    """Print a table; True where every preset reaches the target."""
    reached: dict[str, dict[str, int | None]] = {}
    for release in releases.list_supported():
        with tempfile.TemporaryDirectory() as folder:
            project = make_project(Path(folder) / "bench", release=release, algorithm="ppo", features=("prime",))
            for preset in releases.load(release).algorithms:
                steps = _steps_to_target(project, preset)
                reached.setdefault(preset, {})[release] = steps
                print(f"{release} {preset}: {steps}", file=sys.stderr, flush=True)
    print(f"Steps until the mean reward of {WINDOW} steps is {TARGET}; at most {MOST_STEPS}.")
    print(f"{PASS_AT_K}: until the best of eight responses to a held-out prompt has it.\n")
    print(f"| preset | {' | '.join(releases.list_supported())} |")
    print("|---|" + "---|" * len(releases.list_supported()))
    for preset, found in sorted(reached.items()):
        cells = [_cell(found, release) for release in releases.list_supported()]
        print(f"| {preset} | {' | '.join(cells)} |")
    return all(steps is not None for found in reached.values() for steps in found.values())


def _cell(found: dict[str, int | None], release: str) -> str:
    if release not in found:
        return "not in this release"
    return "not reached" if found[release] is None else str(found[release])


def _steps_to_target(project: Path, preset: str) -> int | None:
    directory = project / "runs" / preset
    settings = [
        f"preset={preset}",
        f"trainer.default_local_dir={directory}",
        f"trainer.total_training_steps={MOST_STEPS}",
        "trainer.val_before_train=false",
        "trainer.logger=[console]",
        *(PASS_AT_K_SETTINGS if preset == PASS_AT_K else ("trainer.test_freq=-1",)),
    ]
    done = subprocess.run(
        [sys.executable, "main.py", *settings],
        cwd=project,
        env=on_one_thread(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and not (preset == "dapo" and "have given" in done.stderr):  # nothing was left to learn
        raise RuntimeError(f"{preset} failed:\n{done.stderr[-2000:]}")
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["step"] > 0]
    if preset == PASS_AT_K:
        best = {row["step"]: value for row in rows for key, value in row.items() if key.endswith("/score/best@8/mean")}
        return next((step for step, value in best.items() if value >= TARGET), None)
    rewards = [row["critic/score/mean"] for row in rows]
    for last in range(WINDOW, len(rewards) + 1):
        if sum(rewards[last - WINDOW : last]) / WINDOW >= TARGET:
            return last
    return None
