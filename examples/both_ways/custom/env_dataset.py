"""The dataset: every state of the environment, one in five held out."""

from collections.abc import Mapping
from typing import Any

import datasets

from .env_wrapper import make_env

try:
    from ..vendored.data.rl_dataset import RLHFDataset
except ImportError:
    from verl.utils.dataset.rl_dataset import RLHFDataset


def environment_rows(split: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows in verl's schema.

    Args:
        split: "train" or "val".
        settings: the config's `data.env`.
    """
    env = make_env(settings)
    rows = []
    for index, question in enumerate(env.questions()):
        if (index % 5 == 0) == (split == "val"):
            prompt, info = env.reset(options={"question": question})
            rows.append(
                {
                    "data_source": f"reversal_{split}",
                    "prompt": [{"role": "user", "content": prompt}],
                    "ability": "digits",
                    "reward_model": {"style": "rule", "ground_truth": info["ground_truth"]},
                    "extra_info": {"index": index, "split": split, "question": question},
                }
            )
    return rows


class EnvDataset(RLHFDataset):
    """Prompts from the environment; `data_files` only says which split is wanted."""

    def _download(self, use_origin_parquet: bool = False) -> None:
        """Nothing to fetch."""

    def _read_files_and_tokenize(self) -> None:
        split = "val" if "val" in str(self.data_files[0]) else "train"
        self.dataframe = datasets.Dataset.from_list(environment_rows(split, self.config.get("env") or {}))
