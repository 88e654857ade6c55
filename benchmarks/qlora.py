"""What weights in 4 bits save and cost beside an adapter: memory and time against LoRA, and what is learned."""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.environment import python_in
from benchmarks.training import make_project

SEEDS = (1, 2, 3)
LAST = 10  # steps at the end of a run, whose reward counts
LORA = ("actor_rollout_ref.model.lora_rank=16", "actor_rollout_ref.model.lora_alpha=32")
IN_4_BITS = "local.quantization.load_in_4bit=true"
LIMIT_MEMORY = 0.2
LIMIT_REWARD = 0.8

# Runs in a project: updates of a model with 57 million weights. Prints how many bytes hold it and its adapter, and the
# seconds of an update.
MEASURE = """
import json, sys, time
from pathlib import Path
import torch
from bench.run.distributed import Ranks
from bench.settings.loading import load_config, settle_device
from bench.vendored.protocol import DataProto
from bench.workers.models import load_tokenizer
from bench.workers.policy import Policy

torch.set_num_threads(1)
path = Path(sys.argv[1])
config = load_config(Path("config"), ["scale=toy", f"actor_rollout_ref.model.path={path}", *sys.argv[2:]])
settle_device(config)
ranks = Ranks()
tokenizer = load_tokenizer(config.actor_rollout_ref.model, ranks)
policy = Policy(config, tokenizer, ranks, str(path), total_steps=1)
held = 0
for weight in policy.module.parameters():
    held += weight.numel() * weight.element_size()
    state = getattr(weight, "quant_state", None)
    if state is not None:
        scales = [state.absmax, *([state.state2.absmax] if state.nested else [])]
        held += sum(scale.numel() * scale.element_size() for scale in scales)
torch.manual_seed(0)
ids = torch.randint(4, 16, (32, 16))
ones = torch.ones_like(ids)
columns = {"input_ids": ids, "attention_mask": ones, "position_ids": ones.cumsum(-1) - 1, "prompts": ids[:, :8]}
columns |= {"responses": ids[:, 8:], "response_mask": ones[:, 8:], "advantages": torch.randn(32, 8)}
seconds = []
for _ in range(4):
    start = time.perf_counter()
    policy.update(DataProto.from_dict(dict(columns)))
    seconds.append(time.perf_counter() - start)
print(json.dumps({"weights": held, "update": min(seconds)}))
"""

MODEL = """
import sys
from transformers import Qwen2Config, Qwen2ForCausalLM
from bench.data.toy import ensure_toy_model
path = ensure_toy_model(sys.argv[1])
config = Qwen2Config.from_pretrained(path).to_dict()
config |= {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 6, "layer_types": None}
config |= {"num_attention_heads": 8, "num_key_value_heads": 8}
Qwen2ForCausalLM(Qwen2Config(**config)).save_pretrained(path)
"""


def run() -> bool:
    """Print the ratios; True where every limit holds."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "bench", features=("qlora",))
        python_in(project, "-c", MODEL, str(Path(folder) / "model"))
        sizes = {
            name: _last_line(python_in(project, "-c", MEASURE, str(Path(folder) / "model"), *LORA, *settings))
            for name, settings in (("lora", ()), ("qlora", (IN_4_BITS,)))
        }
        learned = {
            name: statistics.mean(_reward(project, name, seed, *settings) for seed in SEEDS)
            for name, settings in (("lora", ()), ("qlora", (IN_4_BITS,)))
        }
    print("QLoRA against LoRA of rank 16, in float32, on one thread of a CPU.\n")
    print("| what | LoRA | QLoRA | ratio | limit |")
    print("|---|---|---|---|---|")
    ratios = {name: sizes["qlora"][name] / sizes["lora"][name] for name in ("weights", "update")}
    for name, what, unit, divisor, limit in (
        ("weights", "57 million weights and the adapter", "MB", 1e6, f"{LIMIT_MEMORY}x"),
        ("update", "an update on 32 x 16 tokens", "s", 1.0, ""),
    ):
        pair = " | ".join(f"{sizes[kind][name] / divisor:.3g} {unit}" for kind in ("lora", "qlora"))
        print(f"| {what} | {pair} | {ratios[name]:.2f}x | {limit} |")
    reward = learned["qlora"] / learned["lora"]
    pair = f"{learned['lora']:.2f} | {learned['qlora']:.2f}"
    print(f"| reward after 100 steps of the toy task, {len(SEEDS)} runs | {pair} | {reward:.2f}x | {LIMIT_REWARD}x |")
    return ratios["weights"] <= LIMIT_MEMORY and reward >= LIMIT_REWARD


def _reward(project: Path, name: str, seed: int, *settings: str) -> float:
    """Return the mean reward of the last steps of a run on the toy task."""
    directory = project / "runs" / f"{name}{seed}"
    quiet = ("trainer.logger=[]", "trainer.test_freq=-1", "trainer.val_before_train=false", "local.save_last=false")
    rate = "actor_rollout_ref.actor.optim.lr=0.005"
    own = (f"local.seed={seed}", f"trainer.default_local_dir={directory}")
    python_in(project, "main.py", *LORA, rate, *quiet, *own, *settings)
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rewards = [row["critic/score/mean"] for row in rows if "critic/score/mean" in row]
    return statistics.mean(rewards[-LAST:])


def _last_line(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found
