"""What `make demo` does: make a project from verl, train it on the toy task, and say what came out."""

import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

METRIC = "critic/score/mean"
START_BELOW = 0.2
END_AT_LEAST = 0.9


def main() -> int:
    project = Path(sys.argv[1]).resolve()
    if project.exists():
        shutil.rmtree(project)
    project.parent.mkdir(parents=True, exist_ok=True)
    vextract = [sys.executable, "-m", "extractor"]
    subprocess.run([*vextract, "new", str(project)], check=True)
    print(f"\nTraining it: python main.py   (in {project})\n", flush=True)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "main.py"], cwd=project, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        print(f"the training run ended with exit code {done.returncode}", file=sys.stderr)
        return 1
    steps = [json.loads(line) for line in _metrics(project).read_text(encoding="utf-8").splitlines()]
    rewards = [step[METRIC] for step in steps if METRIC in step]
    first, last = sum(rewards[:5]) / len(rewards[:5]), sum(rewards[-5:]) / len(rewards[-5:])
    print(f"\nMean reward {first:.2f} -> {last:.2f} in {len(rewards)} steps, {seconds:.0f} s from start to finish.")
    if first >= START_BELOW or last < END_AT_LEAST:
        print(f"expected a start below {START_BELOW} and an end of at least {END_AT_LEAST}", file=sys.stderr)
        return 1
    print(f"The project:  {project}")
    python, place = shlex.quote(sys.executable), shlex.quote(str(project))
    command = shlex.quote(str(Path(sys.executable).with_name("vextract")))
    print("Try next:")
    print(f"  {command} report {shlex.quote(str(_metrics(project).parent))}")
    print(f"  (cd {place} && {python} main.py algorithm.adv_estimator=rloo trainer.resume_mode=disable)")
    print(f"  {command} explain compute_grpo_outcome_advantage {place}")
    print(f"  {command} verify {place}")
    return 0


def _metrics(project: Path) -> Path:
    return sorted(project.glob("**/metrics.jsonl"))[0]


if __name__ == "__main__":
    sys.exit(main())
