"""TRL's GRPOTrainer: `python trl_grpo.py MODEL PARQUET STEPS PROMPTS GENERATIONS LENGTH ROWS RATE`."""

import contextlib
import sys
import tempfile

from clock import Clock


def train(
    model: str, data: str, steps: int, prompts: int, generations: int, length: int, rows: int, rate: float
) -> None:
    """Train, by passes of so many rows; the reward is the share of right characters, as in the toy environment."""
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    found = [
        {"prompt": row["prompt"], "answer": row["reward_model"]["ground_truth"]}
        for row in Dataset.from_parquet(data).to_list()
    ]

    def reward(completions: list[list[dict[str, str]]], answer: list[str], **_: object) -> list[float]:
        scores = []
        for completion, wanted in zip(completions, answer, strict=True):
            given = completion[0]["content"].strip()
            right = sum(one == other for one, other in zip(given, wanted, strict=False))
            scores.append(right / max(len(given), len(wanted), 1))
        return scores

    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=prompts * generations // rows,
            num_generations=generations,
            max_completion_length=length,
            learning_rate=rate,
            lr_scheduler_type="constant",
            beta=0.0,
            loss_type="dapo",
            temperature=1.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            dataloader_num_workers=0,
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(model=model, reward_funcs=reward, args=settings, train_dataset=Dataset.from_list(found))
        trainer.train()


if __name__ == "__main__":
    clock = Clock()
    model, data, *numbers, rate = sys.argv[1:]
    with contextlib.redirect_stdout(sys.stderr):
        train(model, data, *map(int, numbers), rate=float(rate))  # type: ignore[arg-type]
    clock.report()
