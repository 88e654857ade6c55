# vextract:template base/__package__/data/rows.py - edit freely
"""A dataset whose prompts are rows that code makes, instead of rows of files."""

from collections.abc import Mapping
from typing import Any

from .datasets import RowPrompts


class RowsDataset(RowPrompts):
    """Makes its rows by `make_rows`; the rest is `RowPrompts`', and so is the constructor.

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

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the split that is wanted."""
        return self.make_rows("val" if "val" in str(self.data_files[0]) else "train", self.config.get("env") or {})
