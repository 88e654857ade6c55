# vextract:template
"""A data set from the Hugging Face hub, if it can be reached; otherwise a reason that a person understands."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError


def load_rows(path: str, name: str | None, split: str, timeout: float = 10.0) -> list[dict[str, Any]]:
    """Return the rows of a data set.

    Args:
        path: its name on the hub (`openai/gsm8k`), or a directory with a copy of it.
        name: of its configuration; None: it has only one.
        split: such as "train", or "train[:1000]".
        timeout: seconds to wait for the hub's first answer. Without an answer, a copy in the local cache is used.

    Raises:
        DataError: it cannot be loaded.
    """
    import datasets

    if not Path(path).expanduser().is_dir():
        reason = _unreachable(path, timeout)
        if reason is not None:
            datasets.config.HF_HUB_OFFLINE = True  # so that it looks into the cache at once, and asks nobody
            try:
                rows = datasets.load_dataset(path, name, split=split).to_list()
            except Exception as error:
                raise DataError(f"cannot load {path}: {reason}", "check the network, or HF_HUB_OFFLINE") from error
            print(f"{path}: the hub cannot be reached; taken from the cache")
            return list(rows)
    try:
        return list(datasets.load_dataset(str(path), name, split=split).to_list())
    except Exception as error:
        raise DataError(f"cannot load {path}: {type(error).__name__}: {error}", "check data.env.path") from error


def rows_unless_sample(
    settings: Mapping[str, Any], path: str, name: str | None, split: str, sample: str
) -> list[dict[str, Any]] | None:
    """Return the rows of a data set; None where a handmade sample stands for it.

    Args:
        settings: the config's `data.env`. source: "hub", "sample", or "auto" (the hub's if they can be had, and
            otherwise the sample).
        path, name, split: as `load_rows` has them.
        sample: what the sample is, for the note that it is used.

    Raises:
        DataError: source is none of these; or it is "hub", and the data set cannot be loaded.
    """
    source = settings.get("source", "auto")
    if source not in ("auto", "hub", "sample"):
        raise DataError(f"data.env.source is {source!r}", "choose one of: auto, hub, sample")
    if source == "sample":
        return None
    try:
        return load_rows(path, name, split)
    except DataError as error:
        if source == "hub":
            raise
        print(f"NOTE: {error.message}\n      {sample}", flush=True)
        return None


def _unreachable(path: str, timeout: float) -> str | None:
    """Return why the hub does not answer for a data set; None if it does."""
    from huggingface_hub import HfApi

    try:
        HfApi().dataset_info(path, timeout=timeout)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None
