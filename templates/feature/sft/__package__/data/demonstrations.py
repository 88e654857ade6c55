# vextract:template - edit freely
"""Demonstrations to learn: conversations, or prompts with a response, as tokens of which some are learned.

Conversations become tokens by verl's `MultiTurnSFTDataset`. A prompt with a response becomes what verl's `SFTDataset`
made of it up to 0.6: the prompt by the chat template, then the response and the end-of-sequence token.
"""

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from ..errors import ConfigError, DataError
from ..switches import DATASET_CLASSES
from ..training.given_datasets import files_of, rows_of
from ..vendored.data.multiturn_sft_dataset import MultiTurnSFTDataset
from .dataset_classes import load_class
from .datasets import as_it_stands, data_section, file_list
from .files import HINT, messages_of, read_rows, to_builtin, with_all_columns, without_nulls
from .token_cache import digests, kept

Tokens = dict[str, torch.Tensor]  # input_ids, and loss_mask, 1 on what is learned: (length,) int64


def build_demonstrations(
    config: Any, tokenizer: Any, train: Any = None, val: Any = None
) -> tuple[Dataset[Tokens], Dataset[Tokens] | None]:
    """Return the demonstrations for training, and those for validation if there are any.

    Without files they are the environment's: its ground truths are the responses.

    Args:
        config: the whole config.
        tokenizer: its chat template turns messages into tokens.
        train, val: rows or files, in place of those that the config names.

    Raises:
        DataError: a file cannot be used, or a row: it lacks a column, or is too long.
        HookError: the environment raised.
    """
    data = data_section(config)
    sources = {
        name: file_list(data.get(f"{name}_files")) or None if value is None else value
        for name, value in {"train": train, "val": val}.items()
    }
    if sources["train"] is None:
        if sources["val"] is not None:
            raise DataError("data.val_files is set and data.train_files is not", "set data.train_files as well")
        return _of_environment("train", data, tokenizer), _of_environment("val", data, tokenizer)
    found = demonstrations_of(sources["train"], "train", config, tokenizer)
    return found, None if sources["val"] is None else demonstrations_of(sources["val"], "val", config, tokenizer)


def demonstrations_of(value: Any, split: str, config: Any, tokenizer: Any) -> Dataset[Tokens]:
    """Return demonstrations from rows, or from files.

    Args:
        value: names of files, or what `training/given.py` takes for rows.
        split: train or val.
        config, tokenizer: as for `build_demonstrations`.

    Raises:
        DataError: a file or a row cannot be used.
    """
    data = data_section(config)
    data.pad_mode = "no_padding"
    files = files_of(value, split)
    if files is not None:
        return _of_files(split, files, data, tokenizer)
    rows = rows_of(value, split, data.get("env") or {}, data.prompt_key)
    if rows is None:
        raise DataError(f"the {split} dataset holds tokens", "give rows: conversations, or prompts with responses")
    source = {f"the {split} dataset": rows}
    return kept(lambda: _of_rows(source, split, data, tokenizer), [split, rows], data, tokenizer)


class Demonstrations(Dataset[Tokens]):
    """The items of another dataset.

    Args:
        items: gives tokens, and which of them are learned; where there is padding, an attention mask as well.
        where: of which file, for messages.
    """

    def __init__(self, items: Any, where: str) -> None:
        self._items = items
        self._where = where

    def check(self) -> None:
        """Look at every item.

        Raises:
            DataError: one cannot be made, or nothing of any is to be learned.
        """
        if not sum(int(self[index]["loss_mask"].sum()) for index in range(len(self))):
            raise DataError(
                f"{self._where}: no token of its {len(self)} demonstrations is to be learned",
                "a conversation needs messages of the role assistant; data.max_length may cut them off",
            )

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Tokens:
        try:
            item = self._items[index]
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{self._where}, row {index}: {error}", _hint(error)) from error
        kept = item["attention_mask"].bool() if "attention_mask" in item else slice(None)
        found = {name: item[name][kept] for name in ("input_ids", "loss_mask")}
        found["loss_mask"] = found["loss_mask"].clone()
        found["loss_mask"][0] = 0  # nothing stands before the first token that could foretell it
        return found


class Conversations(MultiTurnSFTDataset):  # type: ignore[misc]
    """verl's dataset of rows whose messages and tools are kept as JSON: pandas would give each the fields of all."""

    tools: Any

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        if self.tools is not None:
            self.tools = [json.loads(given) for given in self.tools]

    def _build_messages(self, example: dict[str, Any]) -> Any:
        return json.loads(example[self.messages_key])


class Responses(Dataset[Tokens]):
    """Prompts with a response each.

    Args:
        rows: with the columns that `data` names; a prompt is text, or messages.
        tokenizer: its chat template turns the prompt into text.
        data: the config's section of that name.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], tokenizer: Any, data: Any) -> None:
        self._rows = rows
        self._tokenizer = tokenizer
        self._of_texts = tokenizer if tokenizer.chat_template else as_it_stands(tokenizer)
        self._data = data

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Tokens:
        row, data, tokenizer = self._rows[index], self._data, self._tokenizer
        prompt, response = _value(row, "prompt", data), _value(row, "response", data)
        if not isinstance(response, str):
            raise ValueError(f"the response is no text: {str(response)[:80]}")
        tokenizer = self._of_texts if isinstance(prompt, str) else tokenizer
        messages = messages_of(prompt, "")
        template = dict(data.get("apply_chat_template_kwargs") or {})
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **template)
        before, after = (
            tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text, response + tokenizer.eos_token)
        )
        tokens = torch.tensor([*before, *after])
        learned = torch.tensor([0] * len(before) + [1] * len(after))
        cut = _cut(len(tokens), data)
        return {"input_ids": tokens[cut], "loss_mask": learned[cut]}


def collate(items: Sequence[Tokens]) -> dict[str, torch.Tensor]:
    """Put demonstrations together to a batch as responses of the model's own would make one.

    Args:
        items: see `Demonstrations`.

    Returns:
        prompts (bs, P), what stands before the first token that is learned, padded on the left; responses (bs, R), the
        rest, padded on the right; response_mask (bs, R), what is learned of it; input_ids, attention_mask and
        position_ids (bs, P + R). P and R are those of the longest row. Padding is 0, and is masked.
    """
    starts = [max(1, int(item["loss_mask"].argmax())) for item in items]
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in ("prompts", "responses", "response_mask")}
    for start, item in zip(starts, items, strict=True):
        parts["prompts"].append(item["input_ids"][:start])
        parts["responses"].append(item["input_ids"][start:])
        parts["response_mask"].append(item["loss_mask"][start:])
    sides = {"prompts": "left", "responses": "right", "response_mask": "right"}
    batch = {name: pad_sequence(rows, batch_first=True, padding_side=sides[name]) for name, rows in parts.items()}
    before, after = (
        pad_sequence([torch.ones_like(row) for row in parts[name]], batch_first=True, padding_side=sides[name])
        for name in ("prompts", "responses")
    )
    batch["input_ids"] = torch.cat([batch["prompts"], batch["responses"]], dim=1)
    batch["attention_mask"] = torch.cat([before, after], dim=1)
    batch["position_ids"] = (batch["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
    return batch


def _of_files(split: str, files: list[str], data: Any, tokenizer: Any) -> Dataset[Tokens]:
    if DATASET_CLASSES:
        custom = data.get("custom_cls") or {}
    if DATASET_CLASSES and custom.get("path"):
        arguments = {"tokenizer": tokenizer, "config": data, "max_samples": data.get(f"{split}_max_samples", -1)}
        items = load_class(str(custom["path"]), custom.get("name"))(files, **arguments)
        found = Demonstrations(items, ", ".join(files))
        found.check()
        return found

    def make() -> Demonstrations:
        return _of_rows({file: read_rows(file, f"data.{split}_files") for file in files}, split, data, tokenizer)

    return kept(make, [split, digests(files)], data, tokenizer)


def _of_rows(rows: Mapping[str, Sequence[Any]], split: str, data: Any, tokenizer: Any) -> Demonstrations:
    """Return demonstrations from rows, by where they come from."""
    where, most = ", ".join(rows), data.get(f"{split}_max_samples", -1)
    columns = set.intersection(*(set(row) for read in rows.values() for row in read))
    if data.messages_key in columns:
        cache = Path(data.cache_dir).expanduser()
        files = [str(_write_cached(_as_json(read, place, data), Path(place), cache)) for place, read in rows.items()]
        with contextlib.redirect_stdout(io.StringIO()):  # it says how many rows there are
            return Demonstrations(Conversations(files, tokenizer, data, max_samples=most), where)
    if {data.prompt_key, data.response_key} <= columns:
        joined = [row for read in rows.values() for row in read]
        return Demonstrations(Responses(joined[:most] if most > 0 else joined, tokenizer, data), where)
    raise DataError(
        f"{where}: rows have neither a column {data.messages_key!r}, nor {data.prompt_key!r} and "
        f"{data.response_key!r}; they have {', '.join(sorted(columns))}",
        "rename them, or set data.messages_key, or data.prompt_key and data.response_key",
    )


def _of_environment(split: str, data: Any, tokenizer: Any) -> Dataset[Tokens]:
    """Return the environment's prompts with its ground truths."""
    from ..hooks import importing_hooks

    with importing_hooks():
        from ..custom.env_dataset import EnvDataset
    rows = EnvDataset([split], tokenizer, data, max_samples=data.get(f"{split}_max_samples", -1)).rows()
    truths = [row["reward_model"]["ground_truth"] for row in rows]
    if not all(isinstance(truth, str) for truth in truths):
        raise DataError("the environment tells no answers that could be learned", "set data.train_files")
    keys = data.prompt_key, data.response_key
    pairs = [dict(zip(keys, (row["prompt"], truth), strict=True)) for row, truth in zip(rows, truths, strict=True)]
    where = f"the environment's {split} states"
    return kept(lambda: Demonstrations(Responses(pairs, tokenizer, data), where), [split, pairs], data, tokenizer)


def _as_json(rows: Sequence[Mapping[str, Any]], place: str, data: Any) -> list[dict[str, Any]]:
    """Return what `Conversations` reads of rows; refuse what is no list of messages, each with a role and a text."""
    kept = []
    for number, row in enumerate(rows):
        where = f"{place}, row {number}, {data.messages_key}"
        if isinstance(given := row[data.messages_key], str):
            raise DataError(f"{where}: text, and no list of messages: {given[:60]}", HINT)
        found = {data.messages_key: json.dumps(messages_of(given, where))}
        if data.tools_key in row:
            tools = row[data.tools_key]
            try:
                tools = json.loads(tools) if isinstance(tools, str) else tools
            except json.JSONDecodeError as error:
                raise DataError(f"{place}, row {number}, {data.tools_key}: no JSON: {error}", "mend the row") from error
            found[data.tools_key] = json.dumps(without_nulls(to_builtin(tools)))
        if data.enable_thinking_key in row:
            found[data.enable_thinking_key] = row[data.enable_thinking_key]
        kept.append(found)
    return kept


def _write_cached(rows: list[dict[str, Any]], path: Path, cache: Path) -> Path:
    """Write rows as parquet, which verl's dataset reads, under a name made from their content.

    Raises:
        ConfigError: they cannot be written there.
    """
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()[:16]
    target = cache / "converted" / f"{path.stem}-{digest}.parquet"
    scratch = target.with_suffix(f".{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(with_all_columns(rows)), scratch)
        scratch.replace(target)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be kept as parquet in {target.parent}: {error.strerror or error}",
            "set data.cache_dir to a directory that you can write to",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink()
    return target


def _value(row: Mapping[str, Any], what: str, data: Any) -> Any:
    """Return the prompt or the response of a row; where the column holds a dictionary, what is under the keys."""
    value = row[data[f"{what}_key"]]
    for key in data.get(f"{what}_dict_keys") or ():
        value = value[key]
    return value


def _cut(length: int, data: Any) -> slice:
    """Return which tokens of a demonstration are kept.

    Raises:
        ValueError: it is too long, and is not to be cut.
    """
    if length <= data.max_length:
        return slice(None)
    if data.truncation == "error":
        raise ValueError(f"it has {length} tokens, more than data.max_length={data.max_length}")
    return slice(-data.max_length, None) if data.truncation == "left" else slice(data.max_length)


def _hint(error: Exception) -> str:
    text = str(error)
    if "max_length" in text:
        return "raise data.max_length, or set data.truncation=right to cut what is longer"
    if "input_ids" in text:
        return "data.ignore_input_ids_mismatch=true takes the messages as they are rendered one by one"
    if "chat_template" in text:
        return "set actor_rollout_ref.model.custom_chat_template, or use a model that was trained on conversations"
    return "mend the row; data.messages_key, data.prompt_key and data.response_key name the columns"
