# vextract:template - edit freely
"""Rows of files (parquet, or JSON, one object per line or a list of them) or in memory, in one form.

A column of a table gives each message the fields of all: null where a row had none. Chat templates ask whether a field
is there, so a null is taken for what it nearly always is, and left out.
"""

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..switches import MULTIMODAL, REWARD_FORMS
from .image_marks import with_marks

# What `datasets` hands out as it is stored; it decodes others, such as images.
AS_STORED = {"Value", "List", "LargeList", "Sequence"}
# The columns that the ground truth is looked for in; the others' names are those of data sets for TRL.
TRUTHS = ("ground_truth", "solution", "answer")
if REWARD_FORMS:
    # The column that has the prompt of a row as it was given, as JSON: a text or messages.
    GIVEN_PROMPT = "given_prompt"
HINT = 'write text, or [{"role": "user", "content": "..."}]'


class Rows:
    """Rows in memory, which answer what verl's dataset asks of a `datasets.Dataset`.

    That would take longer to import than a first step, and gives each object in a column the keys of all. Here a row
    has what it was given; what is handed out are copies, since verl's dataset changes what it reads.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = with_all_columns(list(rows))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: Any) -> Any:
        """Return a row, by its number, or a column, by its name."""
        return copy.deepcopy([row[key] for row in self._rows] if isinstance(key, str) else self._rows[key])

    def select(self, indices: Iterable[int]) -> "Rows":
        """Return the rows with these numbers."""
        return Rows(self._rows[index] for index in indices)


def with_all_columns(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that have every column of any of them; None where a row had no such column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


def read_rows(file: str, key: str) -> list[dict[str, Any]]:
    """Return the rows of a .parquet, .jsonl or .json file, of which there is at least one.

    Args:
        file: its path.
        key: the setting that names it, for messages.

    Raises:
        DataError: it is not there, is none of these, cannot be read, or holds no rows.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        text = f"{file} is a directory" if path.is_dir() else f"no such file: {file}"
        raise DataError(text, f"name the files: {key}=[one.parquet,two.parquet]")
    if path.suffix.lower() == ".parquet":
        opened = open_parquet(path, key)
        if is_as_stored(opened):
            rows = opened.read().to_pylist()
        else:
            import datasets  # takes long to import

            rows = list(datasets.load_dataset("parquet", data_files=str(path))["train"])
    elif path.suffix.lower() in (".jsonl", ".json"):
        rows = _read_json(path, key)
    else:
        converting = f"pandas.read_csv({file!r}).to_parquet({file.removesuffix(path.suffix) + '.parquet'!r})"
        hint = f"check {key}, or convert it; in Python: {converting}"
        raise DataError(f"{file} is neither .parquet nor .jsonl nor .json", hint)
    if not rows:
        raise DataError(f"{file} holds no rows", f"check {key}")
    return rows


def open_parquet(path: Path, key: str) -> Any:
    """Open a parquet file, whose columns and number of rows can be asked for before it is read.

    Raises:
        DataError: it is none.
    """
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"cannot read {path} as parquet: {error}", f"check {key}") from error


def is_as_stored(opened: Any) -> bool:
    """Tell whether an open parquet file holds values as they are: no images, no objects as JSON."""
    schema = opened.schema_arrow
    said = (schema.metadata or {}).get(b"huggingface", b"").decode()
    return set(re.findall(r'"_type": *"(\w+)"', said)) <= AS_STORED and "arrow.json" not in str(schema)


def _read_json(path: Path, key: str) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")  # some programs begin their files with a byte order mark
    except UnicodeDecodeError as error:
        number = path.read_bytes()[: error.start].count(b"\n") + 1
        raise DataError(f"{path}:{number}: not UTF-8: {error.reason}", f"convert it, or check {key}") from error
    # Many call JSON lines .json. Lines end with \n and nothing else: texts may hold what str.splitlines breaks at.
    is_whole = path.suffix.lower() == ".json" and text.lstrip()[:1] == "["
    rows: list[Any] = []
    for number, line in enumerate([text] if is_whole else text.split("\n")):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{number + error.lineno}: not valid JSON: {error.msg}", f"check {key}") from error
    rows = rows[0] if is_whole else rows
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path} does not hold one object per row", f"check {key}")
    return rows


def messages_of(given: Any, where: str) -> list[dict[str, Any]]:
    """Return the messages of a prompt or a conversation, each with text for its content.

    Args:
        given: text, which one message of the user says; or messages. Their content is text, or parts of text, which
            are put together as they are; it may be left out beside tool_calls.
        where: file and row, for messages.

    Raises:
        DataError: it is something else.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    listed = without_nulls(to_builtin(given))
    if not listed:
        raise DataError(f"{where}: {'null' if given is None else 'there is no message'}", f"drop the row; or {HINT}")
    if not isinstance(listed, list) or not all(isinstance(message, dict) for message in listed):
        raise DataError(f"{where}: neither text nor a list of messages: {str(given)[:80]}", HINT)
    return [_message(message, f"{where}, message {number}") for number, message in enumerate(listed)]


def _message(message: dict[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(message.get("role"), str) or not message["role"]:
        raise DataError(f"{where}: it has no role: {str(message)[:80]}", HINT)
    content = message.get("content")
    if MULTIMODAL:
        content = with_marks(content)
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return message
    if not isinstance(content, list):
        found = "is missing, or null" if content is None else f"is {content!r:.60}, of type {type(content).__name__}"
        raise DataError(f"{where}: its content {found}", "write text; of an object or a number its JSON, in quotes")
    texts: list[Any] = []
    for part in content:
        texts.append(part.get("text") if isinstance(part, dict) and part.keys() <= {"type", "text"} else part)
        if not isinstance(texts[-1], str):
            raise DataError(
                f"{where}: a part of its content is no text: {str(part)[:60]}",
                'prompts are text here: leave such rows out, or write {"type": "text", "text": "..."}',
            )
    return {**message, "content": "".join(texts)}


def without_nulls(value: Any) -> Any:
    """Return a value of JSON without the fields that are null, however deep they are."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def to_builtin(value: Any) -> Any:
    """Return a value with Python's own dictionaries, lists and numbers in place of others' and of tuples."""
    if isinstance(value, Mapping):
        return {name: to_builtin(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_builtin(value.tolist())
    return [to_builtin(item) for item in value] if isinstance(value, list | tuple) else value


# verl's schema


def rows_in_schema(
    rows: Sequence[Mapping[str, Any]], split: str, data: Any, *, needs_truth: bool = True
) -> list[dict[str, Any]]:
    """Return rows in verl's schema: see `dataset_of_rows`."""
    where, schema = Path(f"{split}_dataset"), list[dict[str, Any]]()
    if not rows:
        raise DataError(f"the {split} dataset is empty", f"check what is given as {where}")
    for number, row in enumerate(map(to_builtin, rows)):
        if not isinstance(row, dict):
            text = f"item {number} of the {split} dataset is of type {type(row).__name__}, not a dictionary"
            raise DataError(text, "an item is a row, {'prompt': ..., 'ground_truth': ...}")
        schema.append(to_schema(row, number, where, data, needs_truth=needs_truth))
        if REWARD_FORMS:
            key = data.get("prompt_key", "prompt")
            given = row[key] if isinstance(row[key], str) else schema[-1][key]
            schema[-1][GIVEN_PROMPT] = json.dumps(given, default=str)
    return schema


def to_schema(row: dict[str, Any], number: int, path: Path, data: Any, *, needs_truth: bool) -> dict[str, Any]:
    """Return one row in verl's schema. Columns it does not know are kept."""
    prompt_key, source_key = data.get("prompt_key", "prompt"), data.get("reward_fn_key", "data_source")
    where, columns = f"{path}, row {number}", ", ".join(sorted(row))
    extra_info, reward_model = row.get("extra_info"), row.get("reward_model")
    if prompt_key not in row:
        raise DataError(f"{where}: no column {prompt_key!r}; it has {columns}", "rename it, or set data.prompt_key")
    if row[prompt_key] == "":
        raise DataError(f"{where}: the prompt is empty", "drop the row, or set data.prompt_key to another column")
    messages = messages_of(row[prompt_key], where)
    if messages[-1]["role"] == "assistant":
        raise DataError(
            f"{where}: the prompt ends with a message of the assistant, which is what the model is to write",
            "leave it out of the prompt; for demonstrations there is the recipe sft",
        )
    if not isinstance(extra_info, Mapping | None):
        raise DataError(f"{where}: extra_info is no object, but {str(extra_info)!r:.80}", 'write {"name": value}')
    if reward_model is None:
        truth = next((row[name] for name in TRUTHS if row.get(name) is not None), None)
        if truth is None and needs_truth:
            raise DataError(
                f"{where}: neither reward_model nor {', '.join(TRUTHS)}; it has {columns}",
                "add a ground_truth column: the answer that the reward compares with",
            )
        is_container = isinstance(truth, list | dict)
        reward_model = {"style": "rule", "ground_truth": truth if is_container or truth is None else str(truth)}
    elif not isinstance(reward_model, Mapping) or (needs_truth and reward_model and "ground_truth" not in reward_model):
        raise DataError(
            f"{where}: reward_model is no object with a ground_truth, but {str(reward_model)!r:.80}",
            'write {"style": "rule", "ground_truth": ...}, or a column ground_truth in its place',
        )
    known = {prompt_key, source_key, "ability", "reward_model", "ground_truth", "extra_info"}
    return {
        source_key: row.get(source_key) or path.stem,
        prompt_key: messages,
        "ability": row.get("ability") or "",
        "reward_model": reward_model,
        "extra_info": {"index": number, **(extra_info or {})},
        **{name: value for name, value in row.items() if name not in known},
    }
