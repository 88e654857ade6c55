"""Responses by a generated project, by upstream's rollout, and by TRL: `python rollouts.py MODEL`, in the project.

All are in one process and take turns, on the same model and prompts. Seconds are of the processor.
"""

import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROUNDS = 3
LENGTHS = (128, 256, 512)
PROMPTS, GENERATIONS, PROMPT_LENGTH = 4, 8, 16
SHAPES = {
    "1 layer of 64, 40 tokens": {"vocab_size": 40, "hidden_size": 64, "num_hidden_layers": 1, "num_key_value_heads": 4},
    "4 layers of 128, heads in pairs": {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 4},
    "2 layers of 128, 32,000 tokens": {"vocab_size": 32_000, "hidden_size": 128, "num_hidden_layers": 2},
}
SOME_END = "1 layer of 64, rows that end"


def main(model_path: str) -> dict[str, Any]:
    """Measure all shapes: for each the seconds by length and by who writes."""
    torch.set_num_threads(1)
    measured = {}
    for name, shape in SHAPES.items():
        lengths = LENGTHS if shape["vocab_size"] <= 1000 else LENGTHS[:1]  # the others draw from it for minutes
        measured[name] = measure(model_path, shape, lengths, ends=False)
    measured[SOME_END] = measure(model_path, next(iter(SHAPES.values())), LENGTHS[-1:], ends=True)
    return measured


def measure(model_path: str, shape: dict[str, int], lengths: tuple[int, ...], *, ends: bool) -> dict[int, Any]:
    """Measure the seconds for each length and writer: the median of some rounds, in turn."""
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096, **shape}
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    end = tokenizer.eos_token_id if ends else shape["vocab_size"]  # no such token: rows are as long as they may be
    config = Qwen2Config(**sizes, intermediate_size=4 * shape["hidden_size"], tie_word_embeddings=True)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = end, tokenizer.pad_token_id
    found: dict[int, Any] = {}
    for length in lengths:
        writers = make_writers(model, tokenizer, length)
        seconds: dict[str, list[float]] = {name: [] for name in writers}
        for _ in range(ROUNDS):
            for name, write in writers.items():
                torch.manual_seed(0)
                started = time.process_time()
                write()
                seconds[name].append(time.process_time() - started)
        found[length] = seconds
    return found


def make_writers(model: Any, tokenizer: Any, length: int) -> dict[str, Callable[[], Any]]:
    """Say who writes: ours, upstream's class on transformers' generate, and TRL's trainer."""
    from bench.settings.loading import load_config
    from bench.vendored.protocol import DataProto
    from bench.vendored.workers.hf_rollout import HFRollout
    from bench.workers.rollout_engine import RolloutEngine

    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 39, (PROMPTS, PROMPT_LENGTH), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(PROMPTS):
        mask[row, : 2 * row] = 0
    ids, mask = (ids * mask).repeat_interleave(GENERATIONS, 0), mask.repeat_interleave(GENERATIONS, 0)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    meta = {
        "eos_token_id": model.generation_config.eos_token_id,
        "pad_token_id": model.generation_config.pad_token_id,
    }
    columns = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    config = load_config(Path("config"), ["scale=toy", f"data.max_response_length={length}"])

    class Policy:
        module = model

    class One:
        world_size = 1

    engine = RolloutEngine(config, tokenizer, One(), Policy())  # type: ignore[arg-type]
    upstream = HFRollout(model, engine.config)
    trl = trl_trainer(model, tokenizer, length)
    lists = [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]

    def batch() -> Any:
        return DataProto.from_dict({name: value.clone() for name, value in columns.items()}, meta_info=dict(meta))

    return {
        "ours": lambda: engine.generate_sequences(batch()),
        "upstream": lambda: upstream.generate_sequences(batch()),
        "TRL": lambda: trl._generate_single_turn(lists, None, {}, GENERATIONS),
    }


def trl_trainer(model: Any, tokenizer: Any, length: int) -> Any:
    """Make a GRPOTrainer that would train this model."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def score(completions: list[Any], **_: Any) -> list[float]:
        return [0.0] * len(completions)

    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=GENERATIONS,
            num_generations=GENERATIONS,
            max_completion_length=length,
            report_to="none",
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
        )
        rows = Dataset.from_list([{"prompt": "1="}])
        trainer = GRPOTrainer(
            model=model, reward_funcs=score, args=settings, train_dataset=rows, processing_class=tokenizer
        )
        ends = model.generation_config.eos_token_id
        trainer.generation_config.eos_token_id = ends
        trainer.generation_kwargs["eos_token_id"] = ends
    model.eval()
    return trainer


if __name__ == "__main__":
    sys.path.insert(0, ".")
    with contextlib.redirect_stdout(sys.stderr):
        seconds = main(sys.argv[1])
    medians = {
        shape: {length: {n: statistics.median(s) for n, s in by.items()} for length, by in lengths.items()}
        for shape, lengths in seconds.items()
    }
    print(json.dumps(medians))
