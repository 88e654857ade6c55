# vextract:template - edit freely
"""Every sample of a step as a line of a file: `trainer.rollout_data_dir`, `trainer.validation_data_dir`."""

import json
from pathlib import Path
from typing import Any


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
