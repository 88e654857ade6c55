# vextract:template shims/rows_of_files.py - edit freely
"""What verl's dataset takes from `datasets`, which is imported, and pandas with it, where files are read by it."""

from typing import Any

# A `datasets.Dataset`, in annotations.
Rows = Any


def load_dataset(kind: str, data_files: str) -> Any:
    """Return `datasets.load_dataset` of a file."""
    import datasets

    return datasets.load_dataset(kind, data_files=data_files)


def concatenate_datasets(parts: list[Any]) -> Any:
    """Return `datasets.concatenate_datasets` of the rows of several files."""
    import datasets

    return datasets.concatenate_datasets(parts)
