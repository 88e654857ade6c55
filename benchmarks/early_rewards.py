"""How long a step takes where responses are scored as they end, against one where all are waited for first."""

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.environment import python_in
from benchmarks.training import make_project

# Runs in a project of engine hf: the setting changes every step, so that a busy machine slows both alike. The model is
# new and stays so: it says anything, and responses end at all lengths. Prints the seconds of steps by the setting, and
# what rollout and reward take one after the other.
MEASURE = """
import asyncio, json, sys, time
from pathlib import Path
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from bench.settings import load_config
from bench.data.toy import ensure_toy_model
from bench.training.trainer import LocalPPOTrainer

torch.set_num_threads(1)
folder, kind, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
path = folder / "model"
ensure_toy_model(path)
shape = Qwen2Config.from_pretrained(path).to_dict() | {
    "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 8,
    "num_key_value_heads": 2, "initializer_range": 0.02, "layer_types": None,
}
torch.manual_seed(0)
Qwen2ForCausalLM(Qwen2Config(**shape)).save_pretrained(path)
(folder / "scores.py").write_text('''
import asyncio, time

def length(solution_str, **sample):
    return len(solution_str) / 128

def waits(solution_str, **sample):
    time.sleep(0.2)
    return length(solution_str)

async def awaits(solution_str, **sample):
    await asyncio.sleep(0.2)
    return length(solution_str)

def computes(solution_str, **sample):
    until = time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    return length(solution_str)
''')
kinds = {
    "awaits": {"local.reward.concurrency": 8},
    "waits": {"local.reward.num_workers": 8},
    "threads": {"reward.reward_manager.name": "naive"},
    "computes": {"reward.reward_manager.name": "naive"},
}
settings = {
    "scale": "toy",
    "actor_rollout_ref.model.path": str(path),
    "actor_rollout_ref.rollout.n": 8,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 64,
    "data.train_batch_size": 8,
    "data.max_response_length": 128,
    "local.save_last": False,
    "reward.custom_reward_function.path": str(folder / "scores.py"),
    "reward.custom_reward_function.name": "waits" if kind == "threads" else kind,
    "trainer.default_local_dir": str(folder / "run"),
    "trainer.logger": [],
    "trainer.test_freq": -1,
    "trainer.val_before_train": False,
    "trainer.critic_warmup": 1000,  # no update: the model stays as new as it is
    "trainer.total_training_steps": 2 * steps + 1,
    **kinds[kind],
}
seconds = {"early": [], "late": [], "gen": [], "reward": []}
with LocalPPOTrainer(load_config(settings)) as trainer:
    for number, metrics, _ in trainer.steps():
        name = "late" if trainer.config.local.reward.early is False else "early"
        if number > 1:
            seconds[name].append(metrics["timing_s/step"])
        if number > 1 and name == "late":
            seconds["gen"].append(metrics["timing_s/gen"])
            seconds["reward"].append(metrics["timing_s/reward"])
        trainer.config.local.reward.early = False if name == "early" else None
print(json.dumps(seconds))
"""
STEPS = 6
KINDS = {
    "awaits": "awaits 0.2 s, 8 at once",
    "waits": "waits 0.2 s, in 8 processes",
    "threads": "waits 0.2 s, verl's naive manager",
    "computes": "computes 20 ms in Python, verl's naive manager",
}


def run() -> bool:
    """Print the ratios. There is no limit to hold: they depend on how long rollout and reward take."""
    print("| reward function | rollout, then reward, shares of a step | step, as they end against afterwards |")
    print("|---|---|---|")
    for kind, text in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            seconds = _measured(Path(folder), kind)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        shares = ", ".join(f"{medians[name] / medians['late']:.0%}" for name in ("gen", "reward"))
        print(f"| {text} | {shares} | {medians['early'] / medians['late']:.2f}x |")
    return True


def _measured(folder: Path, kind: str) -> dict[str, list[float]]:
    project = make_project(folder / "bench", features=("overlap",))
    output = python_in(project, "-c", MEASURE, str(folder), kind, str(STEPS))
    found: dict[str, list[float]] = json.loads(output.splitlines()[-1])
    return found
