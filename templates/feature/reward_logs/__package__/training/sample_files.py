# vextract:template - edit freely
"""Samples of training: a few in generations.jsonl, or all of a step as lines of a file (`trainer.rollout_data_dir`)."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from ..vendored.protocol import DataProto
from .batches import sample_rows

TRAINING_SAMPLES_AT = 100  # steps of a run


def log_training_samples(trainer: Any, batch: DataProto, scores: list[float], infos: dict[str, list[Any]]) -> None:
    """Record what the model wrote in the step that is being done, as far as the config asks for it.

    Args:
        trainer: whose step it is.
        batch: the global one.
        scores: one for each sample.
        infos: the components of the reward, one value for each sample.
    """
    step, total, tokenizer = trainer.steps_done + 1, trainer.total_steps, trainer.tokenizer
    if step in (1, total) or step % max(1, total // TRAINING_SAMPLES_AT) == 0:
        count = trainer.config.local.log_train_generations
        trainer.tracker.log_generations(shown_training_rows(batch, scores, infos, count, tokenizer), step)
    if trainer.config.trainer.rollout_data_dir:
        write_rows(trainer.config.trainer.rollout_data_dir, step, sample_rows(batch, scores, tokenizer, infos))


def write_rows(directory: str, step: int, rows: list[dict[str, Any]]) -> None:
    """Write samples to `directory`/`step`.jsonl, in upstream's column names, with the reward's components."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    with open(Path(directory) / f"{step}.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            entry = {
                "input": row["prompt"],
                "output": row["response"],
                "gts": row["ground_truth"],
                "score": row["score"],
                "step": step,
                **row["components"],
            }
            file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")


def shown_training_rows(
    batch: DataProto, scores: list[float], infos: dict[str, list[Any]], count: int, tokenizer: Any
) -> list[dict[str, Any]]:
    """Return a few samples of training to show: of its first prompts, the best and the worst response of each.

    Args:
        batch: scored samples; responses to the same prompt have the same uid.
        scores: one for each sample.
        infos: the components of the reward, one value for each sample.
        count: how many to show, at most.
        tokenizer: decodes them.
    """
    groups: dict[Any, list[int]] = defaultdict(list)
    for row, uid in enumerate(batch.non_tensor_batch["uid"]):
        groups[uid].append(row)
    extremes = [[max(group, key=scores.__getitem__), min(group, key=scores.__getitem__)] for group in groups.values()]
    chosen = list(dict.fromkeys(row for pair in extremes for row in pair))[:count]
    if not chosen:
        return []
    parts = {name: [values[row] for row in chosen] for name, values in infos.items()}
    rows = sample_rows(batch[np.array(chosen)], [scores[row] for row in chosen], tokenizer, parts)
    return [{**row, "split": "train"} for row in rows]
