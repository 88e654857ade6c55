"""miniVERL's GRPO: `python miniverl_grpo.py MODEL PARQUET STEPS PROMPTS GENERATIONS LENGTH ROWS RATE`.

It chooses its passes itself: ROWS does nothing.
"""

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from clock import Clock


def recipe(
    model: str, data: str, steps: int, prompts: int, generations: int, length: int, rate: float
) -> dict[str, Any]:
    """Return a native recipe: full weights on the CPU, one on-policy update a step, no adapter and no KL penalty."""
    responses = prompts * generations
    return {
        "schema_version": 1,
        "run": {"name": "benchmark", "mode": "rl", "seed": 23, "deterministic": False},
        "models": {
            "backend": "hf",
            "device": "cpu",
            "student": {"model_id": model, "dtype": "float32", "lora": {"enabled": False}},
        },
        "source": {
            "kind": "verl_parquet",
            "train_files": [data],
            "prompt_key": "prompt",
            "use_task_rewards": True,
            "max_prompt_length": 16 - length,  # the least that it takes is 16 tokens in all
            "max_response_length": length,
            "truncation": "error",
        },
        "rollout": {
            "backend": "hf_cached",
            "samples_per_prompt": generations,
            "prompt_batch_size": prompts,
            "max_padded_tokens": responses * 16,
            "max_turns": 1,
            "max_new_tokens_per_turn": length,
            "max_total_tokens": 16,
            "temperature": 1.0,
            "record_logprobs": True,
        },
        "selection": {"selector": "all_model_tokens"},
        "loss": {"mode": "verl_rl_policy", "aggregation": "token-mean", "scale_by_temperature_squared": False},
        "algorithm": {"name": "grpo", "implementation_version": "verl-v0.9-advantages-v1"},
        "reward": {"enabled": True, "provider": "exact_answer", "error_policy": "fail"},
        "train": {
            "cycles": steps,
            "rollouts_per_cycle": prompts,
            "gradient_accumulation_steps": responses,
            "trajectory_batch_size": responses,
            "learning_rate": rate,
        },
        "memory": {"strategy": "resident"},
        "eval": {"enabled": False},
        "report": {"enabled": False},
    }


def main(arguments: list[str]) -> None:
    """Train through miniVERL's own command line."""
    import torch
    import yaml
    from miniverl.cli import app

    torch.set_num_threads(1)
    model, data, *numbers, rate = arguments
    steps, prompts, generations, length, _ = map(int, numbers)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recipe.yaml"
        file.write_text(yaml.safe_dump(recipe(model, data, steps, prompts, generations, length, float(rate))))
        command = ["train", str(file), "--output", folder, "--run-id", "run", "--offline", "--no-report"]
        app(command, standalone_mode=False)


if __name__ == "__main__":
    clock = Clock()
    with contextlib.redirect_stdout(sys.stderr):
        main(sys.argv[1:])
    clock.report()
