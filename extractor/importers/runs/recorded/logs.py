"""The config that a run has printed into its log, and the command that bash has.

verl prints its config before it trains (`verl/trainer/main_ppo.py`: the whole, resolved, by `pprint`), EasyR1 prints it
as JSON. Ray puts colours and the name of the process before each line, and lines of others, and warnings of the same
process, between those of a config.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from extractor.values import readers

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What gathers logs may put the time before each line: `kubectl logs --timestamps`, Docker, `ts`.
_TIME = re.compile(
    r"^\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
    r"(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?\]? ",
    re.MULTILINE,
)
# Where a config begins: as Python, with a key; as JSON, at the end of a line. Before it stands what Ray or Slurm puts
# before each line of a process: `(TaskRunner pid=75125) `, `(main_task pid=75125, ip=10.0.0.1) `, `0: `.
_BEGINS = re.compile(r"\{'|\{$")
_ECHO = re.compile(r"\++ (?P<command>.*)")
_SETTING = re.compile(r"(?:^|\s)['\"]?\+{0,2}(?:actor_rollout_ref|algorithm|critic|data|trainer)\.\w")
_FEWEST = 3
# What every config of a trainer has.
_SECTION = "trainer"
_TEXT = re.compile(r"""'(?:\\.|[^'\\])*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\Z)""")
# Another line of a config. Whatever else the process says, its warnings for one, may stand between them.
_CONTINUES = re.compile(r" +(?:['\"(\[{)\]}]|-?[.\d]|(?:-?inf|-?nan|None|True|False|null|true|false)\b)|\}$")
# How long a process' name may be, and how many lines are gone through in search of the ends of configs.
_LONGEST_NAME = 200
_MOST_LINES = 2_000_000
# Hydra, where the program ends in an error.
_FAILED = "Error executing job with overrides: "


@dataclass(frozen=True)
class Logged:
    """Holds what a log says of its run; of several runs, of the last whose config is there.

    Attributes:
        config: Resolved, nested; empty where it is not there.
        line: Where that begins, from 1 on.
        configs: How many configs the log has.
        command: The words of the command that bash has echoed, `set -x`; empty where none is there.
        overrides: Those of a run that has failed, as Hydra prints them; None: it does not.
    """

    config: dict[str, Any]
    line: int
    configs: int
    command: tuple[str, ...]
    overrides: tuple[str, ...] | None


def read(data: bytes, is_config: Callable[[Any], bool]) -> Logged | None:
    """Return what a log says; None where it is none of a run.

    Args:
        data: The log's bytes, or its first ones.
        is_config: Tells whether something is the config of a trainer.
    """
    text = _COLOUR.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    lines = _TIME.sub("", text).split("\n")
    found = [(index, config) for index, config in _configs(lines) if is_config(config)]
    echoed = [(index, words) for index, line in enumerate(lines) if (words := _command(line))]
    if not found and not echoed:
        return None
    index, config = found[-1] if found else (len(lines), {})
    before = [words for at, words in echoed if at < index]
    command = before[-1] if before else ()
    end = next((at for at, _ in echoed if at > index), len(lines))
    overrides = next(filter(None, map(_of_an_error, lines[index:end])), None)
    return Logged(config, index + 1, len(found), tuple(command), None if overrides is None else tuple(overrides))


def _configs(lines: list[str]) -> Iterator[tuple[int, Any]]:
    """Yield each mapping that is printed over lines of one process, and the index of its first."""
    left = _MOST_LINES
    for index, line in enumerate(lines):
        begins = _BEGINS.search(line[:_LONGEST_NAME])
        if begins is None:
            continue
        name, first = line[: begins.start()], line[begins.start() :]
        own, depth = [first], _depth(first)
        for at in range(index + 1, min(index + 1 + left, len(lines))):
            if depth <= 0:
                break
            left -= 1
            text = lines[at][len(name) :] if lines[at].startswith(name) else ""
            if _CONTINUES.match(text):
                own.append(text)
                depth += _depth(text)
        text = "\n".join(own)
        config = (_json(text) if first == "{" else python_value(text)) if depth == 0 and _SECTION in text else None
        if config is not None:
            yield index, config


def _depth(line: str) -> int:
    """Return how many more brackets a line opens than it closes; texts end in the line that they begin in."""
    code = _TEXT.sub("", line)
    return sum(map(code.count, "{[(")) - sum(map(code.count, ")]}"))


def python_value(text: str) -> Any:
    """Return what Python has printed of a value of its own types; None where that is none."""
    node = readers.expression(text)
    try:
        return None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None


def _json(text: str) -> Any:
    try:
        return readers.parse_json(text)
    except ValueError:
        return None


def _command(line: str) -> list[str]:
    """Return the words of a command that bash has echoed and that sets what a trainer takes."""
    echo = _ECHO.match(line)
    if echo is None or len(_SETTING.findall(echo["command"])) < _FEWEST:
        return []
    try:
        return shlex.split(echo["command"])
    except ValueError:
        return []


def _of_an_error(line: str) -> list[str] | None:
    _, found, text = line.partition(_FAILED)
    node = readers.expression(text) if found else None
    items = node.elts if isinstance(node, ast.List) else []
    words = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return words if isinstance(node, ast.List) and len(words) == len(items) else None
