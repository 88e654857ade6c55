# vextract:template shims/rows_of_files.py - edit freely
"""What verl's dataset takes from `datasets`, which is imported, and pandas with it, where files are read by it."""

import json
from typing import Any

# A `datasets.Dataset`, in annotations.
Rows = Any


def load_dataset(kind: str, data_files: str) -> Any:
    """Return `datasets.load_dataset` of a file."""
    import datasets

    return datasets.load_dataset(kind, data_files=data_files)


def concatenate_datasets(parts: list[Any]) -> Any:
    """Return `datasets.concatenate_datasets` of the rows of several files.

    `datasets` refuses files in which a column has different types, such as answers to questions of mathematics (text)
    and of programming (tests). Such a column becomes one of `datasets.Json`: each row has what its file has.
    """
    import datasets

    try:
        return datasets.concatenate_datasets(parts)
    except ValueError:
        names = _of_several_types(parts)
        if not names or not hasattr(datasets, "Json"):  # which came with 4.8
            raise
    print(f"the files of data differ in the types of {', '.join(names)}: their values are kept as JSON")
    return datasets.concatenate_datasets([_as_json(part, names) for part in parts])


def _of_several_types(parts: list[Any]) -> list[str]:
    """Return the columns that do not have the same type in each part that has them."""
    names = dict.fromkeys(name for part in parts for name in part.column_names)
    return [name for name in names if len({repr(part.features[name]) for part in parts if name in part.features}) > 1]


def _as_json(part: Any, names: list[str]) -> Any:
    """Return a part whose columns of these names are of `datasets.Json`."""
    import datasets

    own = [name for name in part.column_names if name in names]
    kinds = datasets.Features({name: datasets.Json() for name in own})
    # Text that is JSON itself, such as "1", would be taken for what it says.
    texts = {name: [None if value is None else json.dumps(value) for value in part[name]] for name in own}
    columns = datasets.Dataset.from_dict(texts, features=kinds)
    return datasets.concatenate_datasets([part.remove_columns(own), columns], axis=1)
