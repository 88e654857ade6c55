"""What it costs to hand new weights to vLLM in the trainer's own process, against one copy of the same bytes."""

import importlib.util
import json
import statistics
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
from bench.episodes.turns import context_batch
from bench.settings.loading import load_config, settle_device
from bench.run.distributed import Ranks
from bench.workers.models import load_tokenizer
from bench.workers.policy import Policy
from bench.workers.vllm_rollout import RolloutEngine

torch.set_num_threads(1)
path = Path(sys.argv[1])
ensure_toy_model(path)
config = Qwen2Config.from_pretrained(path)
config.hidden_size, config.intermediate_size, config.num_hidden_layers = 512, 2048, 8
config.num_attention_heads = config.num_key_value_heads = 8
config.vocab_size = 8192
config.layer_types = None
Qwen2ForCausalLM(Qwen2Config(**{k: v for k, v in config.to_dict().items() if k != "layer_types"})).save_pretrained(path)
settings = ["scale=toy", f"actor_rollout_ref.model.path={path}", "actor_rollout_ref.rollout.ignore_eos=true"]
config = load_config(Path("config"), [*settings, "data.max_response_length=16", *sys.argv[2:]])
settle_device(config)
ranks = Ranks()
tokenizer = load_tokenizer(config.actor_rollout_ref.model, ranks)
policy = Policy(config, tokenizer, ranks, str(path), total_steps=1)
engine = RolloutEngine(config, tokenizer, ranks, policy)
weights = [value for _, value in policy.full_weights()]
adapter = config.actor_rollout_ref.model.lora_rank and not config.actor_rollout_ref.model.lora.merge
sent = [value for _, value in policy.adapter_weights()] if adapter else weights
prompts = context_batch([tokenizer("1+2=")["input_ids"]] * 64, tokenizer.pad_token_id, {"do_sample": False})
copies = [torch.empty_like(value) for value in weights]
seconds = {"sync": [], "copy": [], "write": []}
for _ in range(12):
    engine.sync_weights()
    start = time.perf_counter()
    with engine.session():
        seconds["sync"].append(time.perf_counter() - start)
        start = time.perf_counter()
        engine.generate_sequences(prompts)
        seconds["write"].append(time.perf_counter() - start)
    start = time.perf_counter()
    for copy, value in zip(copies, weights, strict=True):
        copy.copy_(value)
    seconds["copy"].append(time.perf_counter() - start)
seconds["bytes"] = sum(value.numel() * value.element_size() for value in sent)
engine.close()
print(json.dumps(seconds))
"""
# An adapter of rank 16 on all layers, handed over as it is or merged; and a model without one.
ADAPTER = "actor_rollout_ref.model.lora_rank=16"
WAYS = {
    "all weights": (),
    "all weights, an adapter merged into them": (ADAPTER, "actor_rollout_ref.model.lora.merge=true"),
    "the adapter": (ADAPTER,),
}


def run() -> bool:
    """Print the ratios. There is no limit to hold: vLLM lays weights out anew, which a copy does not."""
    if importlib.util.find_spec("vllm") is None:
        print("left out: vLLM is not installed (`make bench` installs it)")
        return True
    print("| what goes over | MiB | time, against one copy of all weights | writing 64 x 16 tokens, against the same |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "bench", engine="vllm", features=("episodes", "lora"))
        for name, settings in WAYS.items():
            output = python_in(project, "-c", MEASURE, str(Path(folder) / "model"), *settings)
            seconds = json.loads(output.splitlines()[-1])
            sync, copy, write = (statistics.median(seconds[part]) for part in ("sync", "copy", "write"))
            print(f"| {name} | {seconds['bytes'] / 2**20:.1f} | {sync / copy:.2f}x | {write / copy:.1f}x |")
    return True
