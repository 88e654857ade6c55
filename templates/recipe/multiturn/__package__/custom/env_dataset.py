# vextract:hook  yours: written once, never touched by an upgrade
"""A dataset over an environment: each of its states becomes a prompt, in verl's schema of rows.

It is used when the config names no data files. To use it under full verl, name it in the config:
`data.custom_cls.path=.../env_dataset.py data.custom_cls.name=EnvDataset data.train_files=train data.val_files=val`.
"""

from collections.abc import Mapping
from typing import Any

import datasets

from .env_wrapper import make_env

try:
    from ..data.rl_dataset import RLHFDataset
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.utils.dataset.rl_dataset import RLHFDataset


def environment_rows(split: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The states of the environment as rows. This is the function to replace for another environment.

    Args:
        split: "train" or "val".
        settings: the config's `data.env`.

    Returns:
        Dicts in verl's schema: data_source (names the validation metric), prompt (chat messages), ability,
        reward_model (style and ground_truth), extra_info (index, and what the environment's `reset` gets as options).
        Each digit once for validation, ten times for training; the prompts are all the same.
    """
    env = make_env(settings)
    rows = []
    for index in range(10 if split == "val" else 100):
        observation, info = env.reset(options={"digit": index % 10})
        rows.append(
            {
                "data_source": "guess_digit",
                "prompt": [{"role": "user", "content": observation}],
                "ability": "search",
                "reward_model": {"style": "rule", "ground_truth": info["ground_truth"]},
                "extra_info": {"index": index, "split": split, "digit": index % 10},
            }
        )
    return rows


class EnvDataset(RLHFDataset):
    """Prompts from the states of an environment instead of from files.

    Everything after the rows (chat template, tokens, left padding, position ids) is `RLHFDataset`'s, and so is the
    constructor; `data_files` only says which split is wanted: `["train"]` or `["val"]`.
    """

    def _download(self, use_origin_parquet: bool = False) -> None:
        """Nothing to fetch: `data_files` is the name of a split."""

    def _read_files_and_tokenize(self) -> None:
        split = "val" if "val" in str(self.data_files[0]) else "train"
        rows = environment_rows(split, self.config.get("env") or {})
        limit = getattr(self, "max_samples", -1)
        self.dataframe = datasets.Dataset.from_list(rows[:limit] if limit > 0 else rows)
