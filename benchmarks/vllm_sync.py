"""What it costs to hand new weights to vLLM in the trainer's own process, against one copy of the same bytes."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path

from benchmarks.environment import python_in
from benchmarks.training import make_project

# Runs in a project of engine vllm: prints seconds per hand-over and per copy, and the bytes.
MEASURE = """
import json, sys, time
from pathlib import Path
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from bench.data.toy import ensure_toy_model
from bench.settings.loading import load_config, settle_device
from bench.run.distributed import Ranks
from bench.workers.models import load_tokenizer
from bench.workers.policy import Policy
from bench.workers.rollout_engine import RolloutEngine

torch.set_num_threads(1)
path = Path(sys.argv[1])
ensure_toy_model(path)
config = Qwen2Config.from_pretrained(path)
config.hidden_size, config.intermediate_size, config.num_hidden_layers = 512, 2048, 8
config.num_attention_heads = config.num_key_value_heads = 8
config.vocab_size = 8192
config.layer_types = None
Qwen2ForCausalLM(Qwen2Config(**{k: v for k, v in config.to_dict().items() if k != "layer_types"})).save_pretrained(path)
config = load_config(Path("config"), ["scale=toy", f"actor_rollout_ref.model.path={path}"])
settle_device(config)
ranks = Ranks()
tokenizer = load_tokenizer(config.actor_rollout_ref.model, ranks)
policy = Policy(config, tokenizer, ranks, str(path), total_steps=1)
engine = RolloutEngine(config, tokenizer, ranks, policy)
weights = [value for _, value in policy.full_weights()]
copies = [torch.empty_like(value) for value in weights]
seconds = {"sync": [], "copy": []}
for _ in range(12):
    engine.sync_weights()
    start = time.perf_counter()
    with engine.session():
        pass
    seconds["sync"].append(time.perf_counter() - start)
    start = time.perf_counter()
    for copy, value in zip(copies, weights, strict=True):
        copy.copy_(value)
    seconds["copy"].append(time.perf_counter() - start)
seconds["bytes"] = sum(value.numel() * value.element_size() for value in weights)
print(json.dumps(seconds))
"""


def run() -> bool:
    """Print the ratio. There is no limit to hold: vLLM lays the weights out anew, which a copy does not."""
    if importlib.util.find_spec("vllm") is None:
        print("left out: vLLM is not installed (`make bench` installs it)")
        return True
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "bench", engine="vllm")
        output = python_in(project, "-c", MEASURE, str(Path(folder) / "model"))
    seconds = json.loads(output.splitlines()[-1])
    sync, copy = (sorted(seconds[name])[len(seconds[name]) // 2] for name in ("sync", "copy"))
    print("| what | against | bytes | ratio (medians) |")
    print("|---|---|---|---|")
    print(f"| new weights to vLLM | one copy of them | {seconds['bytes'] / 2**20:.0f} MiB | {sync / copy:.1f}x |")
    return True
