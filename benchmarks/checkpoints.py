"""How long training stands still for a checkpoint: written while it waits, or meanwhile; whole, or in shares."""

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks import training
from benchmarks.environment import python_in

EVERY, STEPS = 5, 16  # the last step's is always written while the run waits
LIMIT = 0.6
SHARES, MEANWHILE = "local.checkpoint.sharded=true", "local.checkpoint.asynchronous=true"
WHOLE = "local.checkpoint.sharded=false"
# What each number of processes does, the slowest first.
KINDS = {
    1: {"training waits": (), "written meanwhile": (MEANWHILE,)},
    2: {
        "whole, training waits": (WHOLE,),
        "whole, written meanwhile": (WHOLE, MEANWHILE),
        "shares, training waits": (SHARES,),
        "shares, written meanwhile": (SHARES, MEANWHILE),
    },
}
MODEL = """
import sys
from bench.data.toy import ensure_toy_model
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks.environment import python_in
from benchmarks.environment import python_in
path = ensure_toy_model(sys.argv[1], task="succ")
config = AutoConfig.from_pretrained(path)
config.update({"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6})
config.layer_types = ["full_attention"] * 6
model = AutoModelForCausalLM.from_config(config)
model.save_pretrained(path)
print(model.num_parameters())
"""


def run() -> bool:
    """Print the seconds of each kind and their ratios; True where training on costs less than the limit."""
    with tempfile.TemporaryDirectory() as folder:
        project = training.make_project(Path(folder) / "bench", features=("sharded_checkpoints",))
        model = project.parent / "model"
        weights = int(python_in(project, "-c", MODEL, str(model)).split()[-1])
        size = f"{weights / 1e6:.0f} million weights with AdamW, {weights * 12 / 1e6:.0f} MB"
        print(f"{size}; the median of three.\n")
        print("| processes | checkpoint | training stands still | against the first |")
        print("|---|---|---|---|")
        ratios = []
        for processes, kinds in KINDS.items():
            seconds = {kind: _stands_still(project, model, processes, kind, own) for kind, own in kinds.items()}
            slowest = next(iter(seconds.values()))
            for kind, value in seconds.items():
                print(f"| {processes} | {kind} | {value:.2f} s | {value / slowest:.2f}x |")
            ratios.append(list(seconds.values())[-1] / slowest)
    print(
        f"\nWritten meanwhile, against the first: {' and '.join(f'{ratio:.2f}x' for ratio in ratios)} (limit {LIMIT}x)"
    )
    return max(ratios) <= LIMIT


def _stands_still(project: Path, model: Path, processes: int, kind: str, own: tuple[str, ...]) -> float:
    """Train, and return the median of the seconds that a save took."""
    run_directory = project / "runs" / f"{processes} {kind}".replace(" ", "_").replace(",", "")
    settings = (
        *own,
        "scale=toy",
        f"actor_rollout_ref.model.path={model}",
        f"trainer.default_local_dir={run_directory}",
        "data.env.task=succ",
        "data.train_batch_size=4",
        "actor_rollout_ref.rollout.n=2",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
        f"trainer.total_training_steps={STEPS}",
        f"trainer.save_freq={EVERY}",
        "trainer.max_actor_ckpt_to_keep=1",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.logger=[]",
    )
    torchrun = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")
    python_in(project, *(torchrun if processes > 1 else ()), "main.py", *settings)
    rows = [json.loads(line) for line in (run_directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return statistics.median(row["timing_s/save_checkpoint"] for row in rows[:-1] if "timing_s/save_checkpoint" in row)
