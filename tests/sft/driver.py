"""Runs in a project of the sft recipe: `driver.py DIRECTORY` trains in DIRECTORY and prints what it finds as JSON.

Under torchrun it does the steps alone.
"""

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from transformers import AutoModelForCausalLM
from warm import LocalPPOTrainer, load_config  # type: ignore[import-not-found]
from warm.data.toy import ensure_toy_model  # type: ignore[import-not-found]
from warm.errors import DataError  # type: ignore[import-not-found]
from warm.run.distributed import Ranks  # type: ignore[import-not-found]
from warm.training.supervised import SupervisedTrainer  # type: ignore[import-not-found]

DIRECTORY = Path(sys.argv[1])
# Eight demonstrations of different lengths: prompts of 1 to 8 digits, responses of 1 to 5.
SINGLE = [{"prompt": "12345678"[: 1 + row], "response": "87654"[: 1 + row % 5]} for row in range(8)]
CHATS = [
    {
        "messages": [
            {"role": role, "content": text}
            for user, assistant in ((row["prompt"], row["response"]), ("9", row["response"][::-1]))
            for role, text in (("user", user), ("assistant", assistant))
        ]
    }
    for row in SINGLE
]
ACTOR = "actor_rollout_ref.actor"
COMMON = (
    "data.train_batch_size=8",
    "trainer.logger=[]",
    "trainer.test_freq=-1",
    "trainer.val_before_train=false",
    "data.shuffle=false",
    f"{ACTOR}.grad_clip=1000000",
    f"{ACTOR}.optim.lr=0.0001",
    f"{ACTOR}.optim.lr_warmup_steps_ratio=0",
    f"data.cache_dir={DIRECTORY / 'cache'}",
)


@cache
def composed() -> DictConfig:
    """The config that the others differ from: to compose one takes a second."""
    model = ensure_toy_model(DIRECTORY / "model", layers=1)
    return load_config(*COMMON, f"actor_rollout_ref.model.path={model}", config_name="sft")


def trainer(name: str, rows: list[dict[str, Any]], *settings: str, ranks: Ranks | None = None) -> SupervisedTrainer:
    changes = OmegaConf.from_dotlist([f"trainer.default_local_dir={DIRECTORY / name}", *settings])
    config = OmegaConf.merge(composed(), changes)
    made = SupervisedTrainer(config, ranks=ranks)
    made.assemble(rows, rows)
    return made


def first_step(name: str, rows: list[dict[str, Any]], *settings: str) -> tuple[float, dict[str, torch.Tensor], float]:
    """Do a step; returns its loss, the gradient that the optimizer got, and the loss that validation found before."""
    with trainer(name, rows, *settings) as run:
        gradients: dict[str, torch.Tensor] = {}

        def note(*_: Any) -> None:
            gradients.update({key: value.grad.clone() for key, value in run.policy.module.named_parameters()})

        run.policy.optimizer.register_step_pre_hook(note)
        before = run.evaluate()["val/loss"]
        _, metrics = run.train_step(next(iter(run.train_loader)))
        return metrics["train/loss"], gradients, before


def by_transformers(rows: list[dict[str, Any]]) -> tuple[float, float, dict[str, torch.Tensor]]:
    """Return the loss of the first step by transformers' own, by hand, and its gradient."""
    with trainer("by_transformers", rows) as run:
        batch = next(iter(run.train_loader))
    lengths = batch["prompts"].shape[1]
    labels = batch["input_ids"].clone()
    labels[:, :lengths] = -100
    labels[:, lengths:][batch["response_mask"] == 0] = -100
    model = AutoModelForCausalLM.from_pretrained(DIRECTORY / "model")
    given = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
    output = model(**given, labels=labels)
    output.loss.backward()
    learned, logs = labels[:, 1:] != -100, output.logits[:, :-1].log_softmax(-1)
    by_hand = -logs.gather(-1, batch["input_ids"][:, 1:, None])[learned].mean()
    return output.loss.item(), by_hand.item(), {name: value.grad for name, value in model.named_parameters()}


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def compare() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, rows in (("single", SINGLE), ("chats", CHATS)):
        theirs, by_hand, gradient = by_transformers(rows)
        whole = first_step(kind, rows, f"{ACTOR}.ppo_micro_batch_size_per_gpu=8")
        found[kind] = {
            "loss": whole[0],
            "validation": whole[2],
            "transformers": theirs,
            "by hand": by_hand,
            "gradient": distance(whole[1], gradient),
            "largest": max(float(value.abs().max()) for value in gradient.values()),
        }
        for size in (1, 2):
            parts = first_step(f"{kind}{size}", rows, f"{ACTOR}.ppo_micro_batch_size_per_gpu={size}")
            found[kind][f"passes of {size}"] = [parts[0], distance(parts[1], whole[1])]
    return found


def steps(name: str, *settings: str, ranks: Ranks | None = None) -> str:
    settings = ("trainer.total_training_steps=4", "trainer.save_freq=2", *settings)
    with trainer(name, CHATS, *settings, ranks=ranks) as run:
        run.fit()
        return str(run.checkpoints.last_complete())


def go_on() -> dict[str, Any]:
    """Train in one go, and from its second step; with an adapter; and by rewards from the result."""
    whole = Path(steps("whole"))
    settings = ("trainer.total_training_steps=4", "trainer.resume_mode=resume_path")
    start = f"trainer.resume_from_path={whole.parent / 'global_step_2'}"
    with trainer("resumed", CHATS, *settings, start) as run:
        resumed = run.fit().last_checkpoint
    lora = ("actor_rollout_ref.model.lora_rank=4", f"{ACTOR}.optim.lr=0.02")
    with trainer("adapter", CHATS, "trainer.total_training_steps=8", *lora) as run:
        first = run.evaluate()["val/loss"]
        adapter = run.fit().last_checkpoint
        last = run.evaluate()["val/loss"]
    config = load_config(
        f"actor_rollout_ref.model.path={whole / 'actor'}",
        "scale=toy",
        "trainer.total_training_steps=1",
        "trainer.logger=[]",
        f"trainer.default_local_dir={DIRECTORY / 'rewards'}",
    )
    with LocalPPOTrainer(config) as by_rewards:
        finished = by_rewards.fit().finished
    return {"whole": str(whole), "resumed": str(resumed), "adapter": [first, last, str(adapter)], "rewards": finished}


def refused() -> list[str]:
    """Return what is said of rows that cannot be learned."""
    files = {"long": {"prompt": "1", "response": "2" * 9}, "other": {"question": "1", "answer": "2"}}
    said = []
    for name, row in files.items():
        file = DIRECTORY / f"{name}.jsonl"
        file.write_text(json.dumps(row) + "\n")
        config = OmegaConf.merge(composed(), {"data": {"max_length": 8, "train_files": str(file)}})
        try:
            SupervisedTrainer(config).assemble()
        except DataError as error:
            said.append(str(error))
    return said


if __name__ == "__main__":
    if "RANK" in os.environ:
        ranks = Ranks()
        steps("ranks", "trainer.balance_batch=true", ranks=ranks)
        ranks.close()
    else:
        print(json.dumps({**compare(), **go_on(), "refused": refused()}))
