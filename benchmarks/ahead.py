"""How long a step takes where a vLLM server writes one batch ahead, against one where training waits for it."""

import importlib.util
import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.environment import python_in
from benchmarks.training import make_project

# Runs in a project of engine vllm: the setting changes every few steps, so that a busy machine slows both alike.
# Prints the seconds of steps, and of what they waited for the responses, by the setting.
MEASURE = """
import json, sys
from pathlib import Path
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from bench.settings import load_config
from bench.data.toy import ensure_toy_model
from bench.training.trainer import LocalPPOTrainer

torch.set_num_threads(1)
folder, length, blocks, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), 4
path = folder / "model"
ensure_toy_model(path)
config = Qwen2Config.from_pretrained(path)
config.hidden_size, config.intermediate_size, config.num_hidden_layers = 128, 512, 4
config.num_attention_heads, config.num_key_value_heads, config.layer_types = 4, 1, None
model = Qwen2ForCausalLM(Qwen2Config(**{k: v for k, v in config.to_dict().items() if k != "layer_types"})).float()
model.generation_config.pad_token_id = model.generation_config.eos_token_id = config.eos_token_id
model.save_pretrained(path)
settings = {
    "scale": "toy",
    "actor_rollout_ref.model.path": str(path),
    "actor_rollout_ref.rollout.mode": "async",
    "actor_rollout_ref.rollout.ignore_eos": True,
    "actor_rollout_ref.rollout.calculate_log_probs": True,
    "actor_rollout_ref.rollout.n": 8,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 64,
    "data.train_batch_size": 8,
    "data.max_response_length": length,
    "local.rollout.ahead": 1,
    "local.save_last": False,
    "local.server.bucket_megabytes": 64,
    "trainer.default_local_dir": str(folder / "run"),
    "trainer.logger": [],
    "trainer.test_freq": -1,
    "trainer.val_before_train": False,
    "trainer.total_training_steps": 2 * blocks * size + 1,
}
seconds = {"0": [], "1": [], "wait 0": [], "wait 1": []}
with LocalPPOTrainer(load_config(settings)) as trainer:
    for number, metrics, _ in trainer.steps():
        block, place = divmod(number - 1, size)
        ahead = trainer.config.local.rollout.ahead
        if block and place > 1:  # those before are on their way from one setting to the other
            seconds[str(ahead)].append(metrics["timing_s/step"])
            seconds[f"wait {ahead}"].append(metrics["timing_s/gen"])
        if place == size - 1:
            trainer.config.local.rollout.ahead = 1 - ahead
print(json.dumps(seconds))
"""
BLOCKS = 6
LENGTHS = (16, 64)


def run() -> bool:
    """Print the ratios. There is no limit to hold: they depend on how long rollout and training take."""
    if importlib.util.find_spec("vllm") is None:
        print("left out: vLLM is not installed (`make bench` installs it)")
        return True
    print("| tokens of a response | waiting for them, share of a step, ahead=0 | ahead=1 | step, ahead=1 against 0 |")
    print("|---|---|---|---|")
    for length in LENGTHS:
        with tempfile.TemporaryDirectory() as folder:
            seconds = _measured(Path(folder), length)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        shares = [f"{medians[f'wait {ahead}'] / medians[str(ahead)]:.0%}" for ahead in (0, 1)]
        print(f"| {length} | {shares[0]} | {shares[1]} | {medians['1'] / medians['0']:.2f}x |")
    return True


def _measured(folder: Path, length: int) -> dict[str, list[float]]:
    project = make_project(folder / "bench", engine="vllm", features=("overlap", "rollout_correction"))
    output = python_in(project, "-c", MEASURE, str(folder), str(length), str(BLOCKS))
    found: dict[str, list[float]] = json.loads(output.splitlines()[-1])
    return found
