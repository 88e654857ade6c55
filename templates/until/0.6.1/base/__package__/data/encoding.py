# vextract:template - edit freely
"""From the items of a dataset to prompts as tokens."""

from typing import Any

from torch.utils.data import Dataset


def encoded(dataset: Dataset, tokenizer: Any, data: Any) -> Dataset:
    """Return the dataset itself, whose items have their tokens in this release of verl.

    Args:
        dataset: of prompts.
        tokenizer: of the policy.
        data: the config's `data` section.
    """
    return dataset
