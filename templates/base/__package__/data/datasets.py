# vextract:template
"""From the config's `data` section to the training and the validation dataset.

Files may be in verl's schema (parquet with prompt, data_source, reward_model...) or plain: parquet or JSON lines with
a `prompt` and a `ground_truth` column, which are converted. Without files, the environment gives the prompts.
"""

import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf
from torch.utils.data import Dataset, IterableDataset

from ..episodes.checks import is_reward
from ..errors import DataError as DataError  # hooks take it from here
from ..errors import DataProblems, Problem
from ..rewards.scoring import source_of
from ..settings import reward_keys
from ..settings.setting import choose_defined
from ..switches import EPISODES, REWARD_MODEL
from ..training.hooks import HookError, hook_file_of, taken_by
from ..vendored.data.rl_dataset import RLHFDataset
from .encoding import encoded
from .files import TRUTHS, Rows, read_rows, small_rows, truth_of, with_all_columns
from .messages import as_it_stands, check_characters, messages_of, plain

# The column that has the prompt of a row as it was given, as JSON: a text or messages.
GIVEN_PROMPT = "given_prompt"
# The split, beside train and val, of prompts that a caller wants answered, all of them.
GIVEN = "given"
PACKAGE = __name__.split(".")[0]
PACKAGE_DIRECTORY = Path(__file__).resolve().parents[1]


def build_datasets(config: Any, tokenizer: Any) -> tuple[Dataset, Dataset]:
    """Return the training and the validation dataset that the config's `data` section describes.

    An item is one prompt, left-padded: input_ids, attention_mask and position_ids of shape (max_prompt_length,),
    raw_prompt_ids, and the row's other columns.

    Args:
        config: the whole config.
        tokenizer: its chat template turns messages into tokens.

    Raises:
        DataError: a file is missing, unreadable, empty or lacks a column, or no prompt is short enough.
        HookError: a dataset class of the owner's raised.
    """
    data = data_section(config)
    files = {split: file_list(data.get(f"{split}_files")) for split in ("train", "val")}
    for split, other in (("train", "val"), ("val", "train")):
        if files[split] and not files[other]:
            hint = f"set data.{other}_files to a file of its own"
            raise DataError(f"data.{split}_files is set and data.{other}_files is not", hint)
    problems: list[Problem] = []
    more: dict[str, Any] = {"needs_truth": _compares(config), "problems": problems}
    train, val = (dataset_of_files(named, split, data, tokenizer, **more) for split, named in files.items())
    if problems:
        raise DataProblems(problems, len(train))  # type: ignore[arg-type]
    return train, val


def _compares(config: Any) -> bool:
    """Tell whether the reward compares responses with ground truths.

    What a manager of the owner's does that is not derived from verl's or the project's is its own.
    """
    from ..training.reward_managers import registered_managers  # which imports the hooks

    if EPISODES and is_reward(config):
        return False
    if REWARD_MODEL and OmegaConf.select(config, reward_keys.JUDGE):
        return False
    manager = registered_managers().get(str(OmegaConf.select(config, reward_keys.MANAGER)))
    known = tuple(f"{PACKAGE}.{folder}." for folder in ("vendored", "rewards"))
    bases = [base for base in getattr(manager, "__mro__", ()) if not inspect.isabstract(base)]
    return any(base.__module__.startswith(known) for base in bases) or not inspect.isclass(manager)


def data_section(config: Any) -> Any:
    """Return the config's `data` section as verl's datasets read it."""
    data = OmegaConf.create(OmegaConf.to_container(config.data, resolve=True))
    if data.get("cache_dir") is None:  # verl's key has a default where it is absent, but none where it is null
        data.cache_dir = "~/.cache/verl/rlhf"
    if EPISODES and OmegaConf.select(config, "actor_rollout_ref.rollout.multi_turn.enable"):
        data.return_raw_chat = True  # a reward gets the whole conversation
    return data


def file_list(value: Any) -> list[str]:
    """Return the names of files in a setting that has one, several or none."""
    if value is None or value == "":
        return []
    return [str(value)] if isinstance(value, str | Path) else [str(file) for file in value]


# verl's dataset


class PromptDataset(RLHFDataset):
    """verl's dataset, with prompt lengths counted as they are later encoded, and small files held in memory.

    Upstream counts with `apply_chat_template(tokenize=True)`, which returns a dict of two entries on transformers 5:
    every prompt then has "length" 2 and none is ever filtered out.
    """

    filter_overlong_prompts: bool
    dataframe: Any

    def _read_files_and_tokenize(self) -> None:
        table: Any = small_rows(self.data_files)
        if table is None:
            import datasets

            datasets.disable_progress_bars()
            wanted, self.filter_overlong_prompts = self.filter_overlong_prompts, False  # prompts are looked at first
            super()._read_files_and_tokenize()
            self.filter_overlong_prompts, table = wanted, self.dataframe
        else:
            table = _limited(table, getattr(self, "max_samples", -1), self.config)
        self.dataframe = self._usable(table)

    def _usable(self, table: Any) -> Any:
        """Return prompts, each of which can be used, without those that are too long, if so configured."""
        if not self.filter_overlong_prompts:
            for number, given in enumerate(table[self.prompt_key]):
                self._messages(given, number)
            return table
        lengths = _prompt_lengths(self, table)
        kept = [row for row, length in enumerate(lengths) if length <= self.max_prompt_length]
        if not kept and lengths:
            text = f"none of the {len(lengths)} prompts has at most {self.max_prompt_length} tokens"
            hint = f"raise data.max_prompt_length to {min(lengths)} or more"
            settings = {"data.max_prompt_length": max(lengths)}
            problem = Problem(f"{text}; the shortest has {min(lengths)}", hint, settings, is_of_data=True)
            raise DataProblems([problem], len(lengths))
        if len(kept) < len(lengths):
            print(f"{len(lengths) - len(kept)} of {len(lengths)} prompts are longer than {self.max_prompt_length}")
        return table.select(kept)

    def maybe_filter_out_long_prompts(self, dataframe: Any) -> Any:
        return self._usable(dataframe) if self.filter_overlong_prompts else dataframe

    def _messages(self, given: Any, number: int | None = None) -> Any:
        """Return the messages of a prompt as templates take them; `number`: its place, where it is not checked yet."""
        try:
            return messages_of(given, "")
        except DataError as error:
            raise DataError(f"{'' if number is None else self._place(number)}{error.message}", error.hint) from error

    def _place(self, number: int) -> str:
        return f"{', '.join(map(str, self.data_files))}, row {number}"

    def _build_messages(self, example: dict[str, Any], *others: Any, **named: Any) -> Any:
        example[self.prompt_key] = self._messages(example[self.prompt_key])
        return super()._build_messages(example, *others, **named)


class RowPrompts(PromptDataset):
    """verl's dataset of rows that are in memory, in verl's schema: `data_files` is a list of one list of rows."""

    def _download(self, use_origin_parquet: bool = False) -> None:
        """Fetch nothing."""

    def rows(self) -> Any:
        """Return the rows."""
        return self.data_files[0]

    def _read_files_and_tokenize(self) -> None:
        rows, limit = self.rows(), getattr(self, "max_samples", -1)
        if not isinstance(rows, Rows):
            for number, row in enumerate(rows):
                check_characters(row, self._place(number))
            rows = Rows(map(plain, rows))
        self.dataframe = self._usable(rows.select(range(limit)) if 0 < limit < len(rows) else rows)

    def _place(self, number: int) -> str:
        return f"row {number}"


def _limited(table: Rows, most: int, data: Any) -> Rows:
    """Return the rows of files that `data.train_max_samples` (or `val`) leaves, as upstream draws them."""
    if not 0 < most < len(table):
        return table
    if not data.get("shuffle", False):
        return table.select(range(most))
    return table.select(np.random.default_rng(data.get("seed")).choice(len(table), size=most, replace=False).tolist())


# One dataset


def dataset_of_files(
    files: list[str],
    split: str,
    data: Any,
    tokenizer: Any,
    problems: list[Problem] | None = None,
    *,
    needs_truth: bool = True,
    rows: list[dict[str, Any]] | None = None,
) -> Dataset:
    """Return a dataset of files or rows; of neither: the environment's; or what the owner's class makes of the files.

    Args:
        files: their names.
        split: train or val.
        data: see `data_section`.
        tokenizer: its chat template turns messages into tokens.
        problems: takes what other settings would mend; None: it is raised.
        needs_truth: whether a row without ground_truth is an error.
        rows: from `rows_in_schema`, in place of files.
    """
    custom = data.get("custom_cls") or {}
    source: Any = files
    are_texts: bool | None = None  # None: the prompts themselves show it
    if rows is not None:
        cls: Any = RowPrompts
        if rows[0].get("ability") != "environment":
            are_texts = all(row[GIVEN_PROMPT].startswith('"') for row in rows)
        source = [Rows(map(plain, rows))]
    elif custom.get("path"):
        cls = load_class(str(custom["path"]), custom.get("name"))
        said = data.get(f"{split}_files")
        # As the config has it, one or several: so verl hands it on.
        source = said if file_list(said) == files else files
    elif files:
        cls = PromptDataset
        source, are_texts = [str(Path(file).expanduser()) if "://" not in file else file for file in files], False
        if not all([is_in_schema(file, split, data) for file in files]):
            cls, (table, are_texts) = RowPrompts, _converted(files, split, data, needs_truth=needs_truth)
            source = [table]
    else:
        from ..training.hooks import importing_hooks

        with importing_hooks():
            from ..custom.env_dataset import EnvDataset

        cls = EnvDataset
    has_template = bool(getattr(tokenizer, "chat_template", None)) or bool(custom.get("path"))
    tokenizer = tokenizer if has_template else as_it_stands(tokenizer)
    arguments = {
        "data_files": source or [split],
        "tokenizer": tokenizer,
        "processor": None,
        "config": data,
        "max_samples": data.get(f"{split}_max_samples", -1),  # newer than some releases, and than owners' classes
    }
    found: list[Problem] = []
    try:
        dataset = cls(**taken_by(cls, arguments))
        if len(dataset) == 0:
            raise DataError(f"the {split} dataset ({cls.__name__}) is empty", f"check data.{split}_files")
        if needs_truth:
            _check_truths(split, dataset)
        if not has_template:
            found += _without_template(split, dataset, tokenizer.chat_template, are_texts)
        found += _too_long(split, dataset)
        dataset = encoded(dataset, tokenizer, data)
        if not found:
            check_item(split, dataset[0], cls)
    except (DataError, HookError):
        raise
    except Exception as error:
        if "chat_template" in str(error) and not getattr(tokenizer, "chat_template", None):
            raise DataError(
                "prompts are conversations, and the tokenizer has no chat template",
                "use a model that was trained on conversations, or set actor_rollout_ref.model.custom_chat_template",
            ) from error
        if cls in (PromptDataset, RowPrompts):
            place = f"data.{split}_files: {', '.join(files)}" if files else f"what is given as {split}_dataset"
            raise DataError(f"cannot build the {split} dataset: {error}", f"check {place}") from error
        where = hook_file_of(error, cls)
        raise HookError(f"the {split} dataset raised {type(error).__name__}: {error}", where) from error
    if problems is not None:
        problems += [problem for problem in found if problem not in problems]
    elif found:
        raise DataProblems(found, len(dataset))  # type: ignore[arg-type]
    return dataset


def dataset_of_rows(
    rows: Sequence[Mapping[str, Any]],
    split: str,
    data: Any,
    tokenizer: Any,
    *,
    needs_truth: bool = True,
    problems: list[Problem] | None = None,
) -> Dataset:
    """Return a dataset of rows: in verl's schema, or with a `prompt`, text or messages, and a `ground_truth`.

    Further columns are kept; the other arguments are those of `dataset_of_files`.

    Raises:
        DataError: a row cannot be used, or there is none.
    """
    schema = rows_in_schema(rows, split, data, needs_truth=needs_truth)
    return dataset_of_files([], split, data, tokenizer, problems, needs_truth=needs_truth, rows=schema)


def rows_in_schema(
    rows: Sequence[Mapping[str, Any]], split: str, data: Any, *, needs_truth: bool = True
) -> list[dict[str, Any]]:
    """Return rows in verl's schema: see `dataset_of_rows`."""
    where = Path(f"{split}_dataset")
    key = data.get("prompt_key", "prompt")
    schema = []
    for number, row in enumerate(rows):
        check_characters(row, f"{where}, row {number}")
        converted = _to_schema(dict(row), number, where, data, needs_truth=needs_truth)
        given = row[key] if isinstance(row[key], str) else converted[key]
        schema.append({**converted, GIVEN_PROMPT: json.dumps(given, default=str)})
    if not schema:
        raise DataError(f"the {split} dataset is empty", f"check what is given as {split}_dataset")
    return with_all_columns(schema)


def load_class(path: str, name: str | None) -> Any:
    """Load the owner's class: by module name if the file is in this package, so that its relative imports work.

    Raises:
        DataError: there is no such class of datasets.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise DataError(f"data.custom_cls.path is not a file: {path}", "give the path of a Python file")
    if file.is_relative_to(PACKAGE_DIRECTORY):
        relative = file.relative_to(PACKAGE_DIRECTORY).with_suffix("")
        module = importlib.import_module(".".join([PACKAGE, *relative.parts]))
    else:
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    cls = getattr(module, name or "", None)
    if not (inspect.isclass(cls) and issubclass(cls, Dataset)):
        classes = [each for each in vars(module).values() if inspect.isclass(each) and issubclass(each, Dataset)]
        there = choose_defined(name, [each.__name__ for each in classes if each.__module__ == module.__name__])
        raise DataError(
            f"{path} has no class {name!r} that derives from torch.utils.data.Dataset",
            f"data.custom_cls.name={there}" if there else "data.custom_cls.path is a file with such a class",
        )
    if issubclass(cls, IterableDataset):
        raise DataError(
            f"{name} in {path} is a stream, and prompts are shuffled and counted",
            "derive it from torch.utils.data.Dataset, with __len__ and __getitem__",
        )
    return cls


# verl's schema


def is_in_schema(file: str, split: str, data: Any) -> bool:
    """Tell whether a file is parquet in verl's schema, which one that is fetched from elsewhere has to be.

    Raises:
        DataError: there is no such file, or it cannot be read.
    """
    if "://" in file:
        return True
    path, key = Path(file).expanduser(), f"data.{split}_files"
    if path.is_dir():
        raise DataError(f"{file} is a directory", f"name the files in it: {key}=[one.parquet,two.parquet]")
    if not path.is_file():
        raise DataError(f"no such file: {file}", f"check {key}")
    if path.suffix.lower() != ".parquet":
        return False
    import pyarrow.parquet

    try:
        opened = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"cannot read {file} as parquet: {error}", f"check {key}") from error
    kinds = {field.name: field.type for field in opened.schema_arrow}
    columns = {"reward_model", "extra_info", data.get("reward_fn_key", "data_source")}
    if not (columns <= kinds.keys() and "list<" in str(kinds.get(data.get("prompt_key", "prompt")))):
        return False
    if opened.metadata.num_rows == 0:
        raise DataError(f"{file} holds no rows", f"check {key}")
    return True


def _converted(files: list[str], split: str, data: Any, *, needs_truth: bool) -> tuple[Rows, bool]:
    """Return the rows of files in verl's schema, as many as are configured; and whether all prompts were texts."""
    found: list[dict[str, Any]] = []
    are_texts, limit, key = True, data.get(f"{split}_max_samples", -1), data.get("prompt_key", "prompt")
    for file in files:
        rows, path = read_rows(file, f"data.{split}_files"), Path(file).expanduser()
        if is_in_schema(file, split, data):
            are_texts, found = False, found + rows
            continue
        found += [_to_schema(row, number, path, data, needs_truth=needs_truth) for number, row in enumerate(rows)]
        are_texts = are_texts and all(isinstance(row[key], str) for row in rows)
    return _limited(Rows(found), limit, data), are_texts


def _to_schema(row: dict[str, Any], number: int, path: Path, data: Any, *, needs_truth: bool = True) -> dict[str, Any]:
    """Return one row in verl's schema. Columns it does not know are kept."""
    prompt_key, source_key = data.get("prompt_key", "prompt"), data.get("reward_fn_key", "data_source")
    where, columns = f"{path}, row {number}", ", ".join(sorted(row))
    prompt, extra_info, reward_model = row.get(prompt_key), row.get("extra_info"), row.get("reward_model")
    if prompt_key not in row:
        raise DataError(f"{where}: no column {prompt_key!r}; it has {columns}", "rename it, or set data.prompt_key")
    if not prompt:
        raise DataError(f"{where}: the prompt is empty", "drop the row, or set data.prompt_key to another column")
    messages = messages_of(prompt, where)
    if messages[-1]["role"] == "assistant":
        raise DataError(
            f"{where}: the prompt ends with a message of the assistant, which is what the model is to write",
            "leave it out of the prompt; for demonstrations there is the recipe sft",
        )
    if extra_info is not None and not isinstance(extra_info, Mapping):
        raise DataError(
            f"{where}: extra_info is no object, but {str(extra_info)!r:.80}", 'write {"name": value}, or rename it'
        )
    is_object = reward_model is None or isinstance(reward_model, Mapping)
    if not is_object or (reward_model and needs_truth and "ground_truth" not in reward_model):
        raise DataError(
            f"{where}: reward_model is no object with a ground_truth, but {str(reward_model)!r:.80}",
            'write {"style": "rule", "ground_truth": ...}, or a column ground_truth in its place',
        )
    if reward_model is None:
        truth = truth_of(row)
        if truth is None and needs_truth:
            raise DataError(
                f"{where}: neither reward_model nor {', '.join(TRUTHS)}; it has {columns}",
                "add a ground_truth column: the answer that the reward compares with",
            )
        is_container = isinstance(truth, list | dict)
        reward_model = {"style": "rule", "ground_truth": truth if is_container or truth is None else str(truth)}
    known = {prompt_key, source_key, "ability", "reward_model", "ground_truth", "extra_info"}
    return {
        source_key: row.get(source_key) or path.stem,
        prompt_key: messages,
        "ability": row.get("ability") or "",
        "reward_model": reward_model,
        "extra_info": {"index": number, **(extra_info or {})},
        **{name: value for name, value in row.items() if name not in known},
    }


# What can be wrong with a dataset


def _without_template(split: str, dataset: Any, template: str, are_texts: bool | None) -> list[Problem]:
    """Return what is wrong with prompts where there is no chat template: that they are conversations.

    Texts are encoded as they stand. Those of an environment, and of the hook, are single messages of the user.
    """
    if are_texts is None:
        chats = dataset.dataframe[dataset.prompt_key]
        are_texts = all(len(chat) == 1 and chat[0]["role"] == "user" for chat in chats)
    if are_texts:
        if split != "val":
            print("note: the tokenizer has no chat template: prompts are encoded as they stand", file=sys.stderr)
        return []
    key = "actor_rollout_ref.model.custom_chat_template"
    hint = f"use a model that was trained on conversations; or say how they are written out: \"{key}='{template}'\""
    text = "prompts are conversations, and the tokenizer has no chat template (that of a model for chats has one)"
    return [Problem(text, hint, {key: f"'{template}'"}, is_of_data=True)]


def _prompt_lengths(dataset: Any, table: Any) -> list[int]:
    """Return the number of tokens of each prompt, templated and encoded as `RLHFDataset.__getitem__` does."""
    template = dict(getattr(dataset, "apply_chat_template_kwargs", None) or {})
    texts = []
    for number, given in enumerate(table[dataset.prompt_key]):
        messages = dataset._messages(given, number) if isinstance(dataset, PromptDataset) else given
        text = dataset.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **template)
        texts.append(text)
    return [len(ids) for ids in dataset.tokenizer(texts, add_special_tokens=False)["input_ids"]] if texts else []


def _check_truths(split: str, dataset: Any) -> None:
    """Refuse a row without what the reward compares with now, rather than when its turn comes."""
    columns = getattr(getattr(dataset, "dataframe", None), "column_names", None) or ()
    if not isinstance(dataset, RLHFDataset) or "reward_model" not in columns:
        return
    for number, given in enumerate(dataset.dataframe["reward_model"]):
        if given is None:
            raise DataError(f"{split} prompt {number} has no reward_model", "drop the row, or give it a ground truth")


def _too_long(split: str, dataset: Any) -> list[Problem]:
    """Return what is wrong with a prompt that is too long now, rather than when its turn comes in the training.

    Raises:
        DataError: it is one that a caller wants answered.
    """
    if not isinstance(dataset, RLHFDataset) or dataset.truncation != "error":
        return []
    lengths = _prompt_lengths(dataset, dataset.dataframe)
    longest = max(range(len(lengths)), key=lengths.__getitem__)
    if lengths[longest] <= dataset.max_prompt_length:
        return []
    text = f"{split} prompt {longest} has {lengths[longest]} tokens"
    text, others = f"{text}, more than data.max_prompt_length={dataset.max_prompt_length}", "data.truncation=left"
    if split == GIVEN:
        raise DataError(text, f"leave it out, or set {others}, or a larger data.max_prompt_length")
    hint = f"set data.filter_overlong_prompts=true, {others}, or a larger data.max_prompt_length"
    return [Problem(text, hint, {"data.max_prompt_length": lengths[longest]}, is_of_data=True)]


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
