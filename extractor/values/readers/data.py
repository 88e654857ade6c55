"""Read untrusted TOML, JSON and YAML."""

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from extractor.values import limits
from extractor.values.readers.files import write_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOMLDecodeError = tomllib.TOMLDecodeError

# A bracket, or what may begin a level of a block: YAML that has few of both on a line is not deep.
_LEVELS = re.compile(r"^[ \t\-?]*", re.MULTILINE)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        TOMLDecodeError: it is none, or is larger or nested deeper than we read.
    """
    if len(text) > limits.MAX_TEXT:
        raise tomllib.TOMLDecodeError(f"larger than {write_size(limits.MAX_TEXT)}")
    if text.count(".") > limits.MAX_TOML_DOTS:
        for number, line in enumerate(text.split("\n"), 1):
            if line.count(".") > limits.MAX_TOML_DOTS:
                raise tomllib.TOMLDecodeError(f"more than {limits.MAX_TOML_DOTS:,} dots in line {number}")
    try:
        top: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError(f"nested more than {limits.MAX_DATA_DEPTH} levels deep") from None
    except (ValueError, OverflowError) as error:  # a number with thousands of digits, a date that is none
        raise tomllib.TOMLDecodeError(str(error)) from None
    problem = _find_problem(top)
    if problem:
        raise tomllib.TOMLDecodeError(problem)
    return top


def parse_json(data: str | bytes) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is none, or is larger or nested deeper than we read.
    """
    if len(data) > limits.MAX_TEXT:
        raise ValueError(f"larger than {write_size(limits.MAX_TEXT)}")
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError(f"nested more than {limits.MAX_DATA_DEPTH} levels deep") from None
    problem = _find_problem(value)
    if problem:
        raise ValueError(problem)
    return value


def _find_problem(value: object) -> str:
    """Say what is wrong with parsed data, or return ""."""
    level: list[object] = [value]
    for _ in range(limits.MAX_DATA_DEPTH):
        if any(isinstance(item, int) and item.bit_length() > limits.MAX_BITS for item in level):
            return f"a number of more than {limits.MAX_BITS} bits"
        level = [child for item in level for child in _list_children(item)]
        if not level:
            return ""
    return f"nested more than {limits.MAX_DATA_DEPTH} levels deep"


def _list_children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def check_yaml(text: str) -> None:
    """Refuse YAML that would exhaust time or memory.

    Raises:
        yaml.YAMLError: it is none, or is larger or nested deeper than we read, or its aliases stand for too much.
    """
    import yaml

    if len(text) > limits.MAX_TEXT:
        raise yaml.YAMLError(f"larger than {write_size(limits.MAX_TEXT)}")
    if "*" not in text and len(text) < limits.MAX_YAML_NODES and _bound_depth(text) < limits.MAX_DATA_DEPTH:
        return
    sizes: dict[str, int] = {}
    # Each open collection, and the document: its anchor, and the nodes in it so far.
    open_: list[tuple[str | None, int]] = [(None, 0)]
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        count, anchor = 0, getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            if anchor not in sizes:
                raise yaml.YAMLError(f"the alias *{anchor} stands for nothing, or for what it is a part of")
            count = sizes[anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((anchor, 1))
            sizes.pop(anchor or "", None)
            if len(open_) > limits.MAX_DATA_DEPTH:
                raise yaml.YAMLError(f"nested more than {limits.MAX_DATA_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, count = open_.pop()
        elif isinstance(event, yaml.ScalarEvent):
            count = 1
        if anchor is not None and count:
            sizes[anchor] = count
        open_[-1] = (open_[-1][0], open_[-1][1] + count)
        if open_[-1][1] > limits.MAX_YAML_NODES:
            raise yaml.YAMLError(
                f"more than {limits.MAX_YAML_NODES:,} keys and values, with what its aliases stand for"
            )


def _bound_depth(text: str) -> int:
    """Return an upper bound of YAML's nesting without parsing it."""
    return text.count("[") + text.count("{") + max(map(len, _LEVELS.findall(text)), default=0)
