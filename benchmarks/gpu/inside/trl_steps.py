"""Time TRL's GRPOTrainer on the same model: `trl_steps.py PACKAGE key=value ...`, with the settings of a project.

Prints the median of seconds per step, from one optimizer step's end to the next, and the peak of allocated memory.
"""

import contextlib
import importlib
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS, WARM_UP = 5, 2


def measure(package: str, settings: list[str]) -> dict[str, float]:
    """Return the figures."""
    import torch
    from datasets import Dataset
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from trl import GRPOConfig, GRPOTrainer

    config = importlib.import_module(package).load_config(*settings)
    cuda = torch.cuda.is_available()
    ends: list[float] = []

    def ended(*_: Any) -> None:
        if cuda:
            torch.cuda.synchronize()
        ends.append(time.perf_counter())

    register_optimizer_step_post_hook(ended)
    rollout, data, actor = config.actor_rollout_ref.rollout, config.data, config.actor_rollout_ref.actor
    responses = data.train_batch_size * rollout.n
    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=actor.ppo_micro_batch_size_per_gpu,
            gradient_accumulation_steps=max(1, responses // actor.ppo_micro_batch_size_per_gpu),
            num_generations=rollout.n,
            max_completion_length=data.max_response_length,
            beta=0.0,
            loss_type="dapo",
            temperature=1.0,
            learning_rate=actor.optim.lr,
            lr_scheduler_type="constant",
            save_strategy="no",
            report_to="none",
            bf16=cuda,
            use_cpu=not cuda,
            gradient_checkpointing=config.actor_rollout_ref.model.enable_gradient_checkpointing,
            disable_tqdm=True,
        )
        rows = [{"prompt": [{"role": "user", "content": f"{number}="}]} for number in range(STEPS * responses)]
        trainer = GRPOTrainer(
            model=config.actor_rollout_ref.model.path,
            reward_funcs=lambda completions, **_: [float(len(one[0]["content"]) % 7) for one in completions],
            args=args,
            train_dataset=Dataset.from_list(rows),
        )
        trainer.train()
    steps = [later - earlier for earlier, later in itertools.pairwise(ends)][WARM_UP - 1 :]
    memory = float(torch.cuda.max_memory_allocated()) if cuda else 0.0
    return {"step": statistics.median(steps), "memory": memory}


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    with contextlib.redirect_stdout(sys.stderr):
        figures = measure(sys.argv[1], sys.argv[2:])
    print(json.dumps(figures))
