# vextract:hook  yours: written once, never touched by an upgrade
"""The prompts: GSM8K's word problems, in verl's schema of rows.

It is used when the config names no data files. `vextract export` takes it to full verl; `data/prepare.py` writes
the rows to files.
"""

from collections.abc import Mapping
from typing import Any

from ..data.hub import rows_unless_sample
from ..data.problems import TRAIN, VAL
from ..data.rows import RowsDataset

INSTRUCTION = "Solve it step by step. End with a line that holds the answer alone, in this form: #### 42"


def environment_rows(split: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the problems as rows. This is the function to replace for other problems.

    Args:
        split: "train" or "val" (GSM8K calls it test).
        settings: the config's `data.env`. source: "hub", or "sample" (the handmade one), or "auto" (the hub's if it can
            be had, and otherwise the sample). path, name: the data set on the hub. instruction: follows the question.
            val_size: problems to validate on, null: all.

    Returns:
        Dicts in verl's schema: data_source (names the validation metric), prompt (chat messages), ability,
        reward_model (style and ground_truth, which the reward manager reads), extra_info (index, and what you like).

    Raises:
        DataError: source is "hub", and the data set cannot be loaded.
    """
    name, problems = "gsm8k_sample", list(VAL if split == "val" else TRAIN)
    path = settings.get("path", "openai/gsm8k")
    sample = f"{split}: the {len(problems)} handmade problems of data/problems.py instead. They show that it works;\n"
    sample += "      nobody learns arithmetic from them."
    part = "test" if split == "val" else "train"
    rows = rows_unless_sample(settings, path, settings.get("name", "main"), part, sample)
    if rows is not None:
        name, problems = path, [(row["question"], row["answer"]) for row in rows]
    if split == "val" and settings.get("val_size"):
        problems = problems[: settings["val_size"]]
    instruction = settings.get("instruction", INSTRUCTION)
    return [
        {
            "data_source": name,
            "prompt": [{"role": "user", "content": f"{question} {instruction}".strip()}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": ground_truth(answer)},
            "extra_info": {"index": index, "split": split, "question": question, "answer": str(answer)},
        }
        for index, (question, answer) in enumerate(problems)
    ]


def ground_truth(answer: str | int) -> str:
    """Return the number at the end of a worked solution: GSM8K's stand behind `####`, with commas."""
    return str(answer).rpartition("####")[2].replace(",", "").strip()


class EnvDataset(RowsDataset):
    """Prompts from `environment_rows` instead of from files."""

    make_rows = staticmethod(environment_rows)
