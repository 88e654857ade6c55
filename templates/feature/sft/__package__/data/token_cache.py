# vextract:template - edit freely
"""Tokens of demonstrations, made at a run's first start and read from the disk at the next."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import datasets
import pyarrow
import pyarrow.compute
import torch
from datasets.fingerprint import Hasher
from omegaconf import OmegaConf
from torch.utils.data import Dataset

PACKAGE_DIRECTORY = Path(__file__).resolve().parents[1]
# The code by which rows become tokens, and the packages.
CODE = ("data", "vendored")
PACKAGES = ("transformers", "tokenizers")
# Settings of `data` that say where rows lie and how they are drawn, and nothing of their tokens.
PLACES_AND_BATCHES = (
    "train_files",
    "val_files",
    "cache_dir",
    "train_batch_size",
    "gen_batch_size",
    "val_batch_size",
    "dataloader_num_workers",
)
FEATURES = datasets.Features(
    {name: datasets.Sequence(datasets.Value(kind)) for name, kind in (("input_ids", "int64"), ("loss_mask", "int8"))}
)


class Made(Protocol):
    """A dataset whose items are made when they are asked for."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return input_ids and loss_mask, (length,) int64."""

    def check(self) -> None:
        """Look at every item, and raise if one cannot be made or nothing of any is to be learned."""


def kept(make: Callable[[], Made], content: Any, data: Any, tokenizer: Any) -> Dataset[Any]:
    """Return a dataset with its items made, which happens at most once for the same rows, tokenizer, settings and code.

    They are kept in `data.cache_dir`, as `datasets` keeps what its `map` returns. Where nothing can be written, an item
    is made whenever it is asked for.

    Args:
        make: returns the dataset.
        content: what the rows are told by: the rows themselves, or digests of their files.
        data: the config's section of that name.
        tokenizer: makes the tokens.

    Raises:
        DataError: what `Made.check` raises.
    """
    directory = Path(data.cache_dir).expanduser() / "demonstrations"
    file = directory / f"{_fingerprint(content, data, tokenizer)}.arrow"
    if file.is_file():
        try:
            return _read(file)
        except (pyarrow.ArrowException, OSError):  # somebody has changed it
            file.unlink(missing_ok=True)
    made: Any = make()
    if (problem := _cannot_write(directory)) is not None:
        print(f"note: demonstrations become tokens at each start: {problem} (data.cache_dir)", file=sys.stderr)
        made.check()
        return made  # type: ignore[no-any-return]
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict({"row": range(len(made))}).map(
        lambda item: made[item["row"]],
        remove_columns=["row"],
        features=FEATURES,
        cache_file_name=str(file),
        new_fingerprint=file.stem,
    )
    found = _read(file)
    if not pyarrow.compute.max(pyarrow.compute.list_flatten(found.data.column("loss_mask"))).as_py():
        file.unlink()
        made.check()
    return found


def digests(files: Iterable[str]) -> list[str]:
    """Return the SHA-256 of each file that is there."""
    found = []
    for file in filter(Path.is_file, (Path(name).expanduser() for name in files)):
        digest = hashlib.sha256()
        with file.open("rb") as opened:
            while block := opened.read(2**20):
                digest.update(block)
        found.append(digest.hexdigest())
    return found


def _cannot_write(directory: Path) -> str | None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return str(error)
    return None if os.access(directory, os.W_OK) else f"{directory} is not writable"


def _read(file: Path) -> Any:
    return datasets.Dataset.from_file(str(file)).with_format("torch")


def _fingerprint(content: Any, data: Any, tokenizer: Any) -> str:
    settings = OmegaConf.to_container(data, resolve=True)
    assert isinstance(settings, dict)
    read = {name: value for name, value in settings.items() if name not in PLACES_AND_BATCHES}
    code = digests(str(file) for name in CODE for file in sorted((PACKAGE_DIRECTORY / name).rglob("*.py")))
    packages = [version(name) for name in PACKAGES]
    return Hasher.hash([content, read, tokenizer, code, packages])
