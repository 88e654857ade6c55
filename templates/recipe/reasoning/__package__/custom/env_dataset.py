# vextract:hook  yours: written once, never touched by an upgrade
"""The prompts: countdown problems (reach a number by arithmetic on some others), in verl's schema of rows.

It is used when the config names no data files. `vextract export` takes it to full verl; `data/prepare.py` writes
the rows to files.
"""

from collections.abc import Mapping
from typing import Any

from ..data.hub import rows_unless_sample
from ..data.problems import TRAIN, VAL
from ..data.rows import RowsDataset

INSTRUCTION = (
    "Use each number exactly once, with + - * / and parentheses, to get the target. First think about it between "
    "<think> and </think>, then write the expression between <answer> and </answer>."
)


def environment_rows(split: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the problems as rows. This is the function to replace for other problems.

    Args:
        split: "train" or "val". The data set on the hub has one split: its first `val_size` rows are for validation,
            the next `train_size` for training.
        settings: the config's `data.env`. source: "hub", or "sample" (the handmade one), or "auto" (the hub's if it can
            be had, and otherwise the sample). path, name: the data set on the hub, with columns nums and target.
            instruction: follows the problem.

    Returns:
        Dicts in verl's schema: data_source (names the validation metric), prompt (chat messages), ability,
        reward_model (style and ground_truth, which the reward manager reads), extra_info (index, and what you like).

    Raises:
        DataError: source is "hub", and the data set cannot be loaded.
    """
    name, problems = "countdown_sample", list(VAL if split == "val" else TRAIN)
    path = settings.get("path", "Jiayi-Pan/Countdown-Tasks-3to4")
    val_size, train_size = settings.get("val_size") or 256, settings.get("train_size") or 20000
    part = f"train[:{val_size}]" if split == "val" else f"train[{val_size}:{val_size + train_size}]"
    sample = f"{split}: the {len(problems)} handmade problems of data/problems.py instead. They show that it works,\n"
    sample += "      and are too few to learn from."
    rows = rows_unless_sample(settings, path, settings.get("name"), part, sample)
    if rows is not None:
        name, problems = path, [(tuple(row["nums"]), row["target"]) for row in rows]
    instruction = settings.get("instruction", INSTRUCTION)
    return [
        {
            "data_source": name,
            "prompt": [{"role": "user", "content": f"{question(numbers, target)} {instruction}".strip()}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": {"numbers": list(numbers), "target": target}},
            "extra_info": {"index": index, "split": split, "numbers": list(numbers), "target": target},
        }
        for index, (numbers, target) in enumerate(problems)
    ]


def question(numbers: tuple[int, ...], target: int) -> str:
    """Return a problem as text."""
    return f"Numbers: {', '.join(map(str, numbers))}. Target: {target}."


class EnvDataset(RowsDataset):
    """Prompts from `environment_rows` instead of from files."""

    make_rows = staticmethod(environment_rows)
