# vextract:template base/__package__/data/rows.py - edit freely
"""A dataset whose prompts are rows that code makes, instead of rows of files."""

from collections.abc import Mapping
from typing import Any

import datasets

from .datasets import PromptDataset


class RowsDataset(PromptDataset):
    """Makes its rows by `make_rows`; the rest is `PromptDataset`'s, and so is the constructor.

    `data_files` only says which split is wanted: `["train"]` or `["val"]`.
    """

    @staticmethod
    def make_rows(split: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Make the rows of a split.

        Args:
            split: "train" or "val".
            settings: the config's `data.env`.

        Returns:
            Dicts in verl's schema.
        """
        raise NotImplementedError

    def _download(self, use_origin_parquet: bool = False) -> None:
        """Fetch nothing: `data_files` is the name of a split."""

    def _read_files_and_tokenize(self) -> None:
        split = "val" if "val" in str(self.data_files[0]) else "train"
        rows = self.make_rows(split, self.config.get("env") or {})
        limit = getattr(self, "max_samples", -1)
        rows = rows[:limit] if limit > 0 else rows
        self.dataframe = self.maybe_filter_out_long_prompts(datasets.Dataset.from_list(rows))
