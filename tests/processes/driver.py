"""Runs inside a project, under torchrun or alone: many short trainings on given rollouts, one after the other.

    python driver.py CASES.json DIRECTORY

Each case is a name and settings. What it gives goes to DIRECTORY/<name>: the checkpoint after its steps, and from rank 0
steps.pt with the advantages and metrics of each step.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, os.getcwd())
warnings.filterwarnings("ignore")

import main as program  # type: ignore[import-not-found]
import torch
from toy.protocol import DataProto  # type: ignore[import-not-found]
from toy.training import trainer as training  # type: ignore[import-not-found]
from toy.training.config_loading import load_config, settle_device  # type: ignore[import-not-found]
from toy.training.distributed import Ranks  # type: ignore[import-not-found]
from toy.training.rollouts import Rollouts  # type: ignore[import-not-found]

steps: list[dict[str, Any]] = []


def given_responses(rollouts: Any, prompts: Any) -> Any:
    """Responses of very different lengths, drawn by a seed: the same ones however many processes there are."""
    length = rollouts.config.data.max_response_length
    generator = torch.Generator().manual_seed(prompts.meta_info.get("global_steps", 0))
    ids, mask = prompts.batch["input_ids"], prompts.batch["attention_mask"]
    rows = len(ids)
    responses = torch.randint(4, len(rollouts.tokenizer), (rows, length), generator=generator)
    lengths = (torch.rand(rows, generator=generator) ** 3 * length).long() + 1
    written = (torch.arange(length) < lengths[:, None]).long()
    responses = responses * written + rollouts.tokenizer.pad_token_id * (1 - written)
    attention_mask = torch.cat([mask, written], dim=-1)
    return DataProto.from_single_dict(
        {
            "prompts": ids,
            "responses": responses,
            "input_ids": torch.cat([ids, responses], dim=-1),
            "attention_mask": attention_mask,
            "position_ids": (attention_mask.cumsum(dim=-1) - 1).clamp(min=0),
        }
    )


def noting(train_step: Any) -> Any:
    """`train_step`, which also keeps what it gave."""

    def step(self: Any, prompts: Any, timing: Any) -> Any:
        batch, metrics = train_step(self, prompts, timing)
        wanted = ("advantages", "returns", "values", "old_log_probs", "ref_log_prob")
        columns = {name: batch.batch[name] for name in wanted if name in batch.batch.keys()}
        steps.append({"columns": columns, "metrics": dict(metrics)})
        return batch, metrics

    return step


def main() -> None:
    Rollouts.generate = given_responses
    Rollouts.sync_weights = lambda self: None
    training.LocalPPOTrainer.train_step = noting(training.LocalPPOTrainer.train_step)
    cases, directory = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    ranks = Ranks()
    for name, settings in cases.items():
        run = directory / name
        config = load_config(Path("config"), [*settings, f"trainer.default_local_dir={run}"])
        settle_device(config)
        steps.clear()
        assert program.train(config, ranks)
        if ranks.rank == 0:
            torch.save(steps, run / "steps.pt")
    ranks.close()


if __name__ == "__main__":
    main()
