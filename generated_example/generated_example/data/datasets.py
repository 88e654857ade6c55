# vextract:template base/__package__/data/datasets.py
"""From the config's `data` section, or rows, to datasets of prompts for training and validation.

Files may be in verl's schema (parquet with prompt, data_source, reward_model...) or plain: parquet or JSON lines with
a `prompt` and a `ground_truth` column, which are converted. Without files, the environment gives the prompts.
"""

import copy
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf
from torch.utils.data import Dataset

from ..errors import DataError, ProjectError  # hooks take DataError from here
from ..hooks import HookError, hook_file_of, importing_hooks, taken_by
from ..rewards.scoring import source_of
from ..vendored.data.rl_dataset import RLHFDataset
from .dataloading import EncodedPrompts
from .files import Rows, is_as_stored, messages_of, open_parquet, read_rows, rows_in_schema, to_schema

# Larger files in verl's schema are left to `datasets`, which maps them from its cache instead of holding them.
MOST_BYTES = 64 * 2**20


def build_datasets(config: Any, tokenizer: Any, *, needs_truth: bool = True) -> tuple[Dataset, Dataset]:
    """Return the training and the validation dataset that the config's `data` section describes.

    An item is one prompt, left-padded: input_ids, attention_mask and position_ids of shape (max_prompt_length,),
    raw_prompt_ids, and the row's other columns.

    Args:
        config: the whole config.
        tokenizer: its chat template turns messages into tokens.
        needs_truth: whether a row without ground_truth is an error.

    Raises:
        DataError: a file is missing, unreadable, empty or lacks a column, or no prompt is short enough.
        HookError: a dataset class of the owner's raised.
    """
    data = data_section(config)
    files = {split: file_list(data.get(f"{split}_files")) for split in ("train", "val")}
    for split, other in (("train", "val"), ("val", "train")):
        if files[split] and not files[other]:
            text = f"data.{split}_files is set and data.{other}_files is not"
            raise DataError(text, f"set data.{other}_files to a file of its own")
    train, val = (dataset_of_files(files[split], split, data, tokenizer, needs_truth=needs_truth) for split in files)
    return train, val


def data_section(config: Any) -> Any:
    """Return the config's `data` section as verl's datasets read it."""
    data = OmegaConf.create(OmegaConf.to_container(config.data, resolve=True))
    if data.get("cache_dir") is None:  # verl's key has a default where it is absent, but none where it is null
        data.cache_dir = "~/.cache/verl/rlhf"
    return data


def file_list(value: Any) -> list[str]:
    """Return the names of files in a setting that has one, several or none."""
    return [str(value)] if isinstance(value, str | Path) and value else [str(file) for file in value or ()]


def dataset_of_files(files: list[str], split: str, data: Any, tokenizer: Any, *, needs_truth: bool = True) -> Dataset:
    """Return a dataset of files by their names; without any the environment's.

    `data` is what `data_section` gives; the other arguments, and errors, are those of `build_datasets`.
    """
    cls: Any = RowPrompts
    if files:
        source = [_rows_of_files(files, split, data, needs_truth=needs_truth)]
    else:
        source = [split]
        with importing_hooks():
            cls = importlib.import_module("..custom.env_dataset", __package__).EnvDataset
    return _built(cls, source, split, data, tokenizer)


def dataset_of_rows(
    rows: Sequence[Mapping[str, Any]], split: str, data: Any, tokenizer: Any, *, needs_truth: bool = True
) -> Dataset:
    """Return a dataset of rows: in verl's schema, or with a `prompt`, text or messages, and a `ground_truth`.

    Further columns are kept; the other arguments are those of `dataset_of_files`.

    Raises:
        DataError: a row cannot be used, or there is none.
    """
    table = Rows(rows_in_schema(rows, split, data, needs_truth=needs_truth))
    return _built(RowPrompts, [table], split, data, tokenizer)


def _built(cls: Any, source: Any, split: str, data: Any, tokenizer: Any) -> Dataset:
    """Make a dataset, with what it is made of, and check it."""
    is_own = cls is not RowPrompts
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if not has_template and issubclass(cls, RowPrompts):
        tokenizer = as_it_stands(tokenizer)
    most = data.get(f"{split}_max_samples", -1)  # not in every release's config
    arguments = {"data_files": source, "tokenizer": tokenizer, "processor": None, "config": data, "max_samples": most}
    try:
        dataset = cls(**taken_by(cls, arguments))
        if len(dataset) == 0:
            raise DataError(f"the {split} dataset ({cls.__name__}) is empty", f"check data.{split}_files")
        if isinstance(dataset, RowPrompts):
            dataset.wrong_prompts = [*find_wrong_prompts(split, dataset, has_template)]
        dataset = EncodedPrompts(dataset, tokenizer, data)
        if not getattr(dataset, "wrong_prompts", ()):
            check_item(split, dataset[0], cls)
    except ProjectError:
        raise
    except Exception as error:
        if not is_own:
            hint = f"check data.{split}_files, or what is given as {split}_dataset"
            raise DataError(f"cannot build the {split} dataset: {error}", hint) from error
        where = hook_file_of(error, cls)
        raise HookError(f"the {split} dataset raised {type(error).__name__}: {error}", where) from error
    return dataset


# verl's dataset, of files and of rows


class RowPrompts(RLHFDataset):
    """verl's dataset of rows in its schema, with prompts checked as it is made: `data_files` is a list of one table.

    Upstream counts with `apply_chat_template(tokenize=True)`, which returns a dict of two entries on transformers 5:
    every prompt then has "length" 2 and none is ever filtered out.

    Attributes:
        prompt_lengths: tokens of each prompt, counted as they are later encoded; empty where any number will do.
    """

    filter_overlong_prompts: bool
    dataframe: Any
    prompt_lengths: list[int]

    def _download(self, use_origin_parquet: bool = False) -> None:
        """Fetch nothing."""

    def rows(self) -> Any:
        """Return the rows, or a table of them."""
        return self.data_files[0]

    def _read_files_and_tokenize(self) -> None:
        """Take the rows, without those that are too long, if so configured."""
        rows, limit = self.rows(), getattr(self, "max_samples", -1)
        if not hasattr(rows, "select"):
            rows = Rows(rows_in_schema(rows, str(self.data_files[0]), self.config, needs_truth=False))
        table = rows.select(range(limit)) if 0 < limit < len(rows) else rows
        self.dataframe, self.prompt_lengths = table, []
        chats = self.chats()
        if not chats or not (self.filter_overlong_prompts or self.truncation == "error"):
            return
        template = dict(getattr(self, "apply_chat_template_kwargs", None) or {})
        given = {"add_generation_prompt": True, "tokenize": False, **template}
        texts = [self.tokenizer.apply_chat_template(messages, **given) for messages in chats]
        lengths = [len(ids) for ids in self.tokenizer(texts, add_special_tokens=False)["input_ids"]]
        self.prompt_lengths = lengths
        kept = [row for row, length in enumerate(lengths) if length <= self.max_prompt_length]
        if not self.filter_overlong_prompts or len(kept) == len(lengths):
            return
        if not kept:
            text = f"none of the {len(lengths)} prompts has at most {self.max_prompt_length} tokens"
            hint = f"raise data.max_prompt_length to {min(lengths)} or more"
            raise DataError(f"{text}; the shortest has {min(lengths)}", hint)
        print(f"{len(lengths) - len(kept)} of {len(lengths)} prompts are longer than {self.max_prompt_length}")
        self.dataframe, self.prompt_lengths = table.select(kept), [lengths[row] for row in kept]

    def chats(self) -> list[Any]:
        """Return the messages of each prompt, as templates take them."""
        prompts = enumerate(self.dataframe[self.prompt_key]) if len(self.dataframe) else ()
        return [messages_of(given, f"{getattr(self.dataframe, 'files', '')}row {number}") for number, given in prompts]

    def _build_messages(self, example: dict[str, Any], *others: Any, **named: Any) -> Any:
        example[self.prompt_key] = messages_of(example[self.prompt_key], "a prompt")
        return super()._build_messages(example, *others, **named)


# What the config names


def _rows_of_files(files: list[str], split: str, data: Any, *, needs_truth: bool) -> Any:
    """Return the rows of files in verl's schema, as many as are configured: in memory, or mapped by `datasets`."""
    key, most = f"data.{split}_files", data.get(f"{split}_max_samples", -1)
    paths = [Path(file).expanduser() for file in files]
    rows: Any
    if _is_for_datasets(paths, key, data):
        import datasets

        datasets.disable_progress_bars()
        rows = datasets.load_dataset("parquet", data_files=list(map(str, paths)), split="train")
        rows.files = f"{', '.join(files)}, "
    else:
        rows = Rows(
            to_schema(row, number, path, data, needs_truth=needs_truth)
            for file, path in zip(files, paths, strict=True)
            for number, row in enumerate(read_rows(file, key))
        )
    if 0 < most < len(rows):  # as upstream draws them
        drawn = np.random.default_rng(data.get("seed")).choice(len(rows), size=most, replace=False).tolist()
        return rows.select(drawn if data.get("shuffle", False) else range(most))
    return rows


def _is_for_datasets(paths: list[Path], key: str, data: Any) -> bool:
    """Tell whether files are parquet in verl's schema, and large or with what `datasets` decodes."""
    if not all(path.suffix.lower() == ".parquet" and path.is_file() for path in paths):
        return False
    columns = {"reward_model", "extra_info", data.get("reward_fn_key", "data_source")}
    opened = [open_parquet(path, key) for path in paths]
    for file in opened:
        kinds = {field.name: str(field.type) for field in file.schema_arrow}
        has_messages = "list<" in kinds.get(data.get("prompt_key", "prompt"), "")
        if not has_messages or not columns <= kinds.keys() or not file.metadata.num_rows:
            return False
    return sum(path.stat().st_size for path in paths) > MOST_BYTES or not all(map(is_as_stored, opened))


# What can be wrong with a dataset


def as_it_stands(tokenizer: Any) -> Any:
    """Return a copy of a tokenizer without a chat template whose template says what messages say, and nothing else.

    It begins a text as the tokenizer does, if that is with a token of its own.
    """
    begins = tokenizer("?")["input_ids"][:1] == [tokenizer.bos_token_id]
    made = copy.copy(tokenizer)
    made.chat_template = "{{ bos_token }}" * begins + "{% for m in messages %}{{ m.content }}{% endfor %}"
    return made


def find_wrong_prompts(split: str, dataset: RowPrompts, has_template: bool) -> Iterator[tuple[str, str, str]]:
    """Find prompts that cannot be encoded; yields a text, and the setting that repairs it, with its value.

    They are too long; or they are conversations, and the tokenizer has no chat template. Without a template single user
    messages are encoded as plain text, with a note.
    """
    most, longest = dataset.max_prompt_length, max(dataset.prompt_lengths, default=0)
    if longest > most and dataset.truncation == "error":
        text = f"{split} prompt {dataset.prompt_lengths.index(longest)} has {longest} tokens"
        text += f", more than data.max_prompt_length={most} (data.filter_overlong_prompts=true leaves it out)"
        yield text, "data.max_prompt_length", str(longest)
    if has_template:
        return
    if not all(len(chat) == 1 and chat[0]["role"] == "user" for chat in dataset.chats()):
        text = "prompts are conversations, and the tokenizer has no chat template (that of a model for chats has one)"
        yield text, "actor_rollout_ref.model.custom_chat_template", f"'{dataset.tokenizer.chat_template}'"
    elif split == "train":
        print("note: the tokenizer has no chat template: prompts are encoded as they stand", file=sys.stderr)


def check_item(split: str, item: Mapping[str, Any], cls: type) -> None:
    """Check what an item of a dataset has.

    Raises:
        HookError: something that the trainer or the reward reads is missing; names the file of the class.
    """
    expected = {"input_ids", "attention_mask", "position_ids", "raw_prompt_ids", "reward_model"}
    missing = sorted(expected - item.keys())
    if missing:
        message = f"items of the {split} dataset lack {', '.join(missing)}"
        raise HookError(message, source_of(cls), {"columns": sorted(item)})
