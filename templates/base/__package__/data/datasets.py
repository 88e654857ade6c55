# vextract:template
"""From the config's `data` section to the training and the validation dataset.

Files may be in verl's schema (parquet with prompt, data_source, reward_model...) or plain: parquet or JSON lines with
a `prompt` and a `ground_truth` column, which are converted. Without files, the environment gives the prompts.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from omegaconf import OmegaConf
from torch.utils.data import Dataset, IterableDataset

from ..episodes.checks import is_reward
from ..errors import ConfigError, DataProblems, Problem
from ..errors import DataError as DataError  # hooks take it from here
from ..rewards.calls import source_of
from ..settings import reward_keys
from ..settings.suggestions import choose_defined
from ..switches import EPISODES, REWARD_MODEL
from ..training.hook_arguments import taken_by
from ..training.hook_errors import HookError, hook_file_of
from ..vendored.data.rl_dataset import RLHFDataset
from .encoding import encoded
from .files import TRUTHS, read_rows, truth_of, with_all_columns
from .messages import as_it_stands, check_characters, messages_of
from .small_table import exact_table, read_small, table_of_rows

# The column that has the prompt of a row as it was given, as JSON: a text or messages.
GIVEN_PROMPT = "given_prompt"
# The split, beside train and val, of prompts that a caller wants answered, all of them.
GIVEN = "given"
# How rows are kept as parquet: another number where that changes, since files of that name may be there.
_FORM = 2
PACKAGE = __name__.split(".")[0]
PACKAGE_DIRECTORY = Path(__file__).resolve().parents[1]


def build_datasets(config: Any, tokenizer: Any, processor: Any = None) -> tuple[Dataset, Dataset]:
    """Return the datasets that the config's `data` section describes.

    Args:
        config: the whole config.
        tokenizer: its chat template turns messages into tokens.
        processor: for images and videos, if the model takes them.

    Returns:
        The training and the validation dataset. An item is one prompt, left-padded: input_ids, attention_mask and
        position_ids of shape (max_prompt_length,), raw_prompt_ids, and the row's other columns.

    Raises:
        DataError: a file is missing, unreadable, empty or lacks a column, or no prompt is short enough.
        HookError: a dataset class of the owner's raised.
    """
    data = data_section(config)
    train_files, val_files = file_list(data.get("train_files")), file_list(data.get("val_files"))
    if train_files and not val_files:
        raise DataError("data.train_files is set and data.val_files is not", "set data.val_files to a file of its own")
    if val_files and not train_files:
        raise DataError("data.val_files is set and data.train_files is not", "set data.train_files as well")
    problems: list[Problem] = []
    more: dict[str, Any] = {"needs_truth": _compares(config), "problems": problems}
    train = _build("train", train_files, data, tokenizer, processor, **more)
    val = _build("val", val_files, data, tokenizer, processor, **more)
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
    if EPISODES and OmegaConf.select(config, "actor_rollout_ref.rollout.multi_turn.enable"):
        data.return_raw_chat = True  # a reward gets the whole conversation
    if data.get("cache_dir") is None:  # verl's key has a default where it is absent, but none where it is null
        data.cache_dir = "~/.cache/verl/rlhf"
    return data


class PromptDataset(RLHFDataset):
    """verl's dataset, with prompt lengths counted as they are later encoded, and small files read without `datasets`.

    Upstream counts with `apply_chat_template(tokenize=True)`, which returns a dict of two entries on transformers 5:
    every prompt then has "length" 2 and none is ever filtered out.
    """

    filter_overlong_prompts: bool
    dataframe: Any

    def _read_files_and_tokenize(self) -> None:
        limit = getattr(self, "max_samples", -1)
        rows: Any = read_small(self.data_files) if self.processor is None else None
        if rows is None or 0 < limit < len(rows):  # upstream's own way to choose some
            _hide_progress_bars()
            wanted = self.filter_overlong_prompts
            self.filter_overlong_prompts = wanted and self.processor is not None  # else prompts are looked at first
            super()._read_files_and_tokenize()
            self.filter_overlong_prompts, rows = wanted, self.dataframe
        if self.processor is None:
            self.dataframe = self._short_enough(rows) if self.filter_overlong_prompts else self._checked(rows)

    def _checked(self, dataframe: Any) -> Any:
        """Return prompts, each of which can be used."""
        for number, given in enumerate(dataframe[self.prompt_key]):
            self._messages(given, number)
        return dataframe

    def _place(self, number: int) -> str:
        """Return file and row of a prompt, for messages."""
        if getattr(self, "max_samples", -1) <= 0:
            for file in self.data_files:
                count = pyarrow.parquet.read_metadata(file).num_rows
                if number < count:
                    return f"{file}, row {number}"
                number -= count
        return f"prompt {number} of those chosen from {', '.join(map(str, self.data_files))}"

    def _messages(self, given: Any, number: int | None = None) -> Any:
        """Return the messages of a prompt as templates take them; `number`: its place, where it is not checked yet."""
        if self.processor is not None:  # it knows images
            return given
        try:
            return messages_of(given, "")
        except DataError as error:
            raise DataError(f"{'' if number is None else self._place(number)}{error.message}", error.hint) from error

    def _build_messages(self, example: dict[str, Any], *others: Any, **named: Any) -> Any:
        example[self.prompt_key] = self._messages(example[self.prompt_key])
        return super()._build_messages(example, *others, **named)

    def maybe_filter_out_long_prompts(self, dataframe: Any) -> Any:
        if not self.filter_overlong_prompts:
            return dataframe
        if self.processor is not None:
            return super().maybe_filter_out_long_prompts(dataframe)
        return self._short_enough(dataframe)

    def _short_enough(self, dataframe: Any) -> Any:
        lengths = _prompt_lengths(self, dataframe)
        kept = [row for row, length in enumerate(lengths) if length <= self.max_prompt_length]
        if not kept and lengths:
            text = f"none of the {len(lengths)} prompts has at most {self.max_prompt_length} tokens"
            hint = f"raise data.max_prompt_length to {min(lengths)} or more"
            settings = {"data.max_prompt_length": max(lengths)}
            problem = Problem(f"{text}; the shortest has {min(lengths)}", hint, settings, is_of_data=True)
            raise DataProblems([problem], len(lengths))
        if len(kept) < len(lengths):
            print(f"{len(lengths) - len(kept)} of {len(lengths)} prompts are longer than {self.max_prompt_length}")
        return dataframe.select(kept)


class RowPrompts(PromptDataset):
    """verl's dataset of rows that are in memory, in verl's schema: `data_files` is a list of one list of rows."""

    def _download(self, use_origin_parquet: bool = False) -> None:
        """Fetch nothing."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows."""
        rows: list[dict[str, Any]] = self.data_files[0]
        return rows

    def _read_files_and_tokenize(self) -> None:
        rows, limit = self.rows(), getattr(self, "max_samples", -1)
        rows = rows[:limit] if limit > 0 else rows
        for number, row in enumerate(rows):
            check_characters(row, self._place(number))
        dataframe = table_of_rows(rows)
        self.dataframe = self._short_enough(dataframe) if self.filter_overlong_prompts else self._checked(dataframe)

    def _place(self, number: int) -> str:
        return f"row {number}"


def dataset_of_files(
    files: list[str], split: str, data: Any, tokenizer: Any, problems: list[Problem] | None = None
) -> Dataset:
    """Return a dataset of files, as `build_datasets` does; `data` is what `data_section` returns."""
    return _build(split, files, data, tokenizer, None, problems=problems)


def dataset_of_rows(
    rows: Sequence[Mapping[str, Any]],
    split: str,
    data: Any,
    tokenizer: Any,
    *,
    needs_truth: bool = True,
    problems: list[Problem] | None = None,
) -> Dataset:
    """Return a dataset of rows, as `build_datasets` does of files.

    Args:
        rows: in verl's schema, or with a `prompt`, text or messages, and a `ground_truth`; further columns are kept.
        split: train or val.
        data: see `data_section`.
        tokenizer: its chat template turns messages into tokens.
        needs_truth: whether a row without ground_truth is an error.
        problems: takes what other settings would mend; None: it is raised.

    Raises:
        DataError: a row cannot be used, or there is none.
    """
    schema = rows_in_schema(rows, split, data, needs_truth=needs_truth)
    return _build(split, [], data, tokenizer, None, rows=schema, problems=problems)


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
    schema = with_all_columns(schema)
    if not schema:
        raise DataError(f"the {split} dataset is empty", f"check what is given as {split}_dataset")
    return schema


def _build(
    split: str,
    files: list[str],
    data: Any,
    tokenizer: Any,
    processor: Any,
    rows: list[dict[str, Any]] | None = None,
    *,
    needs_truth: bool = True,
    problems: list[Problem] | None = None,
) -> Dataset:
    custom = data.get("custom_cls") or {}
    source: Any = files
    found: list[Problem] = []
    texts: list[bool] = []  # of files, whether their prompts are texts
    has_template = bool(getattr(tokenizer, "chat_template", None)) or bool(custom.get("path")) or processor is not None
    tokenizer = tokenizer if has_template else as_it_stands(tokenizer)
    if rows is not None:
        cls: Any = RowPrompts
        source = [rows]
    elif custom.get("path"):
        cls = load_class(str(custom["path"]), custom.get("name"))
        said = data.get(f"{split}_files")
        # As the config has it, one or several: so verl hands it on.
        source = said if file_list(said) == files else files
    elif files:
        cls = PromptDataset
        converted = [_in_schema(file, split, data, needs_truth=needs_truth) for file in files]
        source, texts = [file for file, _ in converted], [is_text for _, is_text in converted]
    else:
        from ..training.hook_calls import importing_hooks

        with importing_hooks():
            from ..custom.env_dataset import EnvDataset

        cls = EnvDataset
    arguments = {
        "data_files": source or [split],
        "tokenizer": tokenizer,
        "processor": processor,
        "config": data,
        "max_samples": data.get(f"{split}_max_samples", -1),  # newer than some releases, and than owners' classes
    }
    if custom.get("path"):
        _hide_progress_bars()
    try:
        dataset = cls(**taken_by(cls, arguments))
        if len(dataset) == 0:
            raise DataError(f"the {split} dataset ({cls.__name__}) is empty", f"check data.{split}_files")
        if needs_truth:
            _check_truths(split, dataset)
        if not has_template:
            found += _without_template(split, dataset, tokenizer.chat_template, texts, rows)
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


def _without_template(
    split: str, dataset: Any, template: str, texts: list[bool], rows: list[dict[str, Any]] | None
) -> list[Problem]:
    """Return what is wrong with prompts where there is no chat template: that they are conversations.

    Texts are encoded as they stand. Those of an environment, and of the hook, are single messages of the user.
    """
    if rows is not None and rows[0].get("ability") != "environment":
        are_texts = all(row[GIVEN_PROMPT].startswith('"') for row in rows)
    elif texts:
        are_texts = all(texts)
    else:
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


def _hide_progress_bars() -> None:
    import datasets

    datasets.disable_progress_bars()


def file_list(value: Any) -> list[str]:
    """Return the names of files in a setting that has one, several or none."""
    if value is None or value == "":
        return []
    return [str(value)] if isinstance(value, str | Path) else [str(file) for file in value]


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
        classes = [
            each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__
        ]
        there = choose_defined(name, [each.__name__ for each in classes if issubclass(each, Dataset)])
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


def _in_schema(file: str, split: str, data: Any, *, needs_truth: bool) -> tuple[str, bool]:
    """Return a parquet file in verl's schema, the file itself or a converted copy in the cache.

    And whether its prompts were texts.
    """
    if "://" in file:
        return file, False  # verl's own reader fetches it
    path = Path(file).expanduser()
    key = f"data.{split}_files"
    if path.is_dir():
        raise DataError(f"{file} is a directory", f"name the files in it: {key}=[one.parquet,two.parquet]")
    if not path.is_file():
        raise DataError(f"no such file: {file}", f"check {key}")
    prompt_key = data.get("prompt_key", "prompt")
    if path.suffix.lower() == ".parquet":
        try:
            schema = pyarrow.parquet.read_schema(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"cannot read {file} as parquet: {error}", f"check {key}") from error
        names = set(schema.names)
        is_chat = prompt_key in names and _is_list(schema.field(prompt_key).type)
        if is_chat and {"reward_model", "extra_info", data.get("reward_fn_key", "data_source")} <= names:
            if pyarrow.parquet.read_metadata(path).num_rows == 0:
                raise DataError(f"{file} holds no rows", f"check {key}")
            return str(path), False
    rows = read_rows(file, key)
    converted = [_to_schema(row, number, path, data, needs_truth=needs_truth) for number, row in enumerate(rows)]
    are_texts = all(isinstance(row[prompt_key], str) for row in rows)
    return str(write_cached(converted, path, Path(data.cache_dir).expanduser())), are_texts


def _is_list(kind: pyarrow.DataType) -> bool:
    return bool(pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind))


def _to_schema(row: dict[str, Any], number: int, path: Path, data: Any, *, needs_truth: bool = True) -> dict[str, Any]:
    """Return one row in verl's schema. Columns it does not know are kept."""
    prompt_key, source_key = data.get("prompt_key", "prompt"), data.get("reward_fn_key", "data_source")
    where = f"{path}, row {number}"
    columns = ", ".join(sorted(row))
    prompt = row.get(prompt_key)
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
    extra_info = row.get("extra_info")
    if extra_info is not None and not isinstance(extra_info, Mapping):
        raise DataError(
            f"{where}: extra_info is no object, but {str(extra_info)!r:.80}", 'write {"name": value}, or rename it'
        )
    reward_model = row.get("reward_model")
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


def _mixed_columns(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the columns that have no one type."""
    for name in dict.fromkeys(name for row in rows for name in row):
        try:
            pyarrow.array([row.get(name) for row in rows])
        except pyarrow.ArrowException:
            yield name


def write_cached(rows: list[dict[str, Any]], path: Path, cache: Path) -> Path:
    """Write rows as parquet under a name made from their content, unless that is there already.

    Raises:
        DataError: a column has values of several types.
        ConfigError: they cannot be written there.
    """
    said = json.dumps([_FORM, rows], sort_keys=True, default=str)
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    target = cache / "converted" / f"{path.stem}-{digest}.parquet"
    if not target.is_file():
        scratch = target.with_suffix(f".{os.getpid()}")
        try:
            whole = with_all_columns(rows)
            table = exact_table({name: [row[name] for row in whole] for name in (whole[0] if whole else ())})
        except pyarrow.ArrowException as error:
            named = ", ".join(_mixed_columns(rows))
            raise DataError(
                f"{path}: values of several types in {named or 'a column'}: {error}",
                "give each column one type; what nothing reads may be one text, of JSON",
            ) from error
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            pyarrow.parquet.write_table(table, scratch)
            scratch.replace(target)
        except pyarrow.ArrowNotImplementedError as error:
            raise DataError(f"{path}: {error}", "leave out columns that nothing reads") from error
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be kept as parquet in {target.parent}: {error.strerror or error}",
                "set data.cache_dir to a directory that you can write to",
            ) from error
        finally:
            with contextlib.suppress(OSError):
                scratch.unlink()
    return target


def _prompt_lengths(dataset: Any, dataframe: Any) -> list[int]:
    """Return the number of tokens of each prompt, templated and encoded as `RLHFDataset.__getitem__` does."""
    template = dict(getattr(dataset, "apply_chat_template_kwargs", None) or {})
    texts = []
    for number, given in enumerate(dataframe[dataset.prompt_key]):
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
    if not isinstance(dataset, RLHFDataset) or dataset.processor is not None or dataset.truncation != "error":
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
