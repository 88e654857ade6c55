"""A generated project with a model of half a billion weights on a GPU: tokens per second, FLOP utilisation, memory.

`python -m benchmarks gpu` makes a project of each engine that can run here, and measures it. On a machine without a
network, with a project that was made elsewhere (`vextract new bench --with mfu`): `python benchmarks/gpu.py PROJECT`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEPS = 6
WARM_UP = 2


@dataclass(frozen=True)
class Size:
    """A model of Qwen2's architecture, and what it is trained on.

    Attributes:
        model: settings of its config.
        prompts: in a step.
        generations: responses to each.
        length: tokens of a response.
        micro_batch: responses in a forward and backward pass.
    """

    model: dict[str, int]
    prompts: int
    generations: int
    length: int
    micro_batch: int


# The shape of Qwen2.5-0.5B, whose config.json is public.
HALF_A_BILLION = Size(
    model={
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
        "max_position_embeddings": 32_768,
    },
    prompts=64,
    generations=8,
    length=512,
    micro_batch=32,
)


def run() -> bool:
    """Print the figures of each engine. There is no limit to hold."""
    import torch

    if not torch.cuda.is_available():
        print("left out: torch finds no GPU")
        return True
    from benchmarks.training import make_project

    engines = ["hf", *(["vllm"] if importlib.util.find_spec("vllm") else [])]
    with tempfile.TemporaryDirectory() as folder:
        for engine in engines:
            report(make_project(Path(folder) / engine, engine=engine, features=("mfu",)), HALF_A_BILLION)
    return True


def report(project: Path, size: Size) -> None:
    """Train a model of random weights for some steps, and print what that took."""
    rows = _train(project, size)[WARM_UP:]
    median = {name: statistics.median(row[name] for row in rows) for name in rows[0] if name != "time"}
    responses = size.prompts * size.generations
    length = median["response_length/mean"]
    generated = responses * length / median["timing_s/gen"]
    print(f"{_device()}, {responses} responses of {length:.0f} tokens in a step, {project.name}\n")
    print("| what | figure (median of steps) |")
    print("|---|---|")
    print(f"| tokens generated | {generated:,.0f}/s |")
    print(f"| tokens, all of the step | {median['perf/total_num_tokens'] / median['timing_s/step']:,.0f}/s |")
    for phase in ("gen", "old_log_prob", "ref", "update_actor", "step"):
        if f"timing_s/{phase}" in median:
            print(f"| seconds: {phase} | {median[f'timing_s/{phase}']:.2f} |")
    for name, words in (
        ("perf/mfu/actor", "model FLOP utilisation of the update"),
        ("perf/max_memory_allocated_gb", "peak GPU memory, allocated, GiB"),
        ("perf/max_memory_reserved_gb", "peak GPU memory, reserved, GiB"),
    ):
        if name in median:
            print(f"| {words} | {median[name]:.3f} |")
    print()


def _train(project: Path, size: Size) -> list[dict[str, Any]]:
    """The metrics of each step."""
    with tempfile.TemporaryDirectory() as folder:
        model, out = _make_model(project, Path(folder), size), Path(folder) / "run"
        settings = [
            f"actor_rollout_ref.model.path={model}",
            f"data.train_batch_size={size.prompts}",
            "data.max_prompt_length=16",
            f"data.max_response_length={size.length}",
            f"actor_rollout_ref.rollout.n={size.generations}",
            f"local.rollout_micro_batch_size={size.prompts * size.generations}",
            f"actor_rollout_ref.actor.ppo_mini_batch_size={size.prompts}",
            f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={size.micro_batch}",
            f"trainer.total_training_steps={STEPS}",
            f"trainer.default_local_dir={out}",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            "trainer.save_freq=-1",
            "local.save_last=false",
            "trainer.logger=[console]",
        ]
        subprocess.run([sys.executable, "main.py", *settings], cwd=project, env=_environment(), check=True)
        lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _make_model(project: Path, folder: Path, size: Size) -> Path:
    """A model of random weights with the toy task's tokenizer; what it writes means nothing."""
    from transformers import AutoConfig, Qwen2Config, Qwen2ForCausalLM

    (package,) = {path.parent.parent.name for path in project.glob("*/data/toy.py")}
    sys.path.insert(0, str(project))
    toy = importlib.import_module(f"{package}.data.toy").ensure_toy_model(folder / "model")
    sys.path.remove(str(project))
    tokens = {name: getattr(AutoConfig.from_pretrained(toy), name) for name in ("pad_token_id", "eos_token_id")}
    model = Qwen2ForCausalLM(Qwen2Config(**size.model, **tokens, bos_token_id=None, tie_word_embeddings=True))
    model.generation_config.pad_token_id, model.generation_config.eos_token_id = tokens.values()
    model.save_pretrained(toy)
    return Path(toy)


def _environment() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _device() -> str:
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return f"{name}, torch {torch.__version__}"


if __name__ == "__main__":
    for directory in sys.argv[1:]:
        report(Path(directory).resolve(), HALF_A_BILLION)
