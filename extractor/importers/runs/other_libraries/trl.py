"""Translate TRL's GRPOTrainer runs from YAML and command options."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from extractor.importers.runs.other_libraries.translation import Translated, find_config_file
from extractor.importers.runs.other_libraries.trl_settings import translate_settings
from extractor.importers.runs.placeholders import replace_unknowns
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values import readers
from extractor.values.configtree.compose import read_mapping, read_yaml
from extractor.values.errors import UsageError

_OWN = ("num_generations", "max_completion_length", "reward_funcs")
_FLAGS = {f"--{spelled}" for name in _OWN for spelled in (name, name.replace("_", "-"))}
_FLAG = re.compile(r"--?[A-Za-z]")
# `trainer.seed=1` is a setting of a config and no value of the option before it.
_OVERRIDE = re.compile(r"[+~]{0,2}\w+(?:\.\w+)+=")
_TRAINS = re.compile(r"\b(?:GRPO|RLOO)Trainer\(")
_PARSES = re.compile(r"\b(?:HfArgumentParser|TrlParser)\(")
_AS_YAML = "write its settings as YAML under TRL's names, and pass that"


def is_config(body: Any) -> bool:
    """Tell whether a config is one of TRL's trainers."""
    return isinstance(body, Mapping) and any(name in body for name in _OWN)


def is_launch(words: Sequence[str], places: RunFolders) -> bool:
    """Tell whether a command starts one of TRL's trainers."""
    script, _ = _find_started(words)
    return bool(
        script.startswith("trl ")
        or any(word.partition("=")[0] in _FLAGS for word in words)
        or is_training(_read_text(script, places))
    )


def is_training(text: str) -> bool:
    """Tell whether a program makes one of TRL's trainers."""
    return _TRAINS.search(text) is not None and re.search(r"^\s*(?:from|import) verl\b", text, re.MULTILINE) is None


def refuse_program(path: object) -> UsageError:
    """Return the error for a program with its settings in Python."""
    return UsageError(f"{path}: its settings for TRL's trainer are in Python, which is not read", hint=_AS_YAML)


def translate_launch(path: Path, words: Sequence[str], places: RunFolders) -> Translated:
    """Translate a command's options, and the config that they name.

    Raises:
        UsageError: the config is not here, or the program has its settings in Python.
    """
    script, options = _find_started(words)
    text = _read_text(script, places)
    if is_training(text) and not _PARSES.search(text):
        raise refuse_program(script)
    stated = dict(_parse_arguments(options))
    file = find_config_file(path, stated.pop("config", None), places)
    try:
        body = {} if file is None else read_mapping(readers.read_text(file), last_counts=True)
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{file}: cannot be read: {error}", hint="correct it") from None
    is_trls = script.startswith("trl ")
    functions = {"reward_funcs": f"those of {script}"} if script and not is_trls else {}
    made = translate_settings({**functions, **body, **stated}, script, _count_processes(words))
    why = "what the program does besides: a trainer of its own, settings that it changes in Python"
    more = [Remark(script, "", "not carried over", why)] if script and not is_trls else []
    return made._replace(remarks=(*made.remarks, *more))


def translate_config(config: Mapping[str, Any], path: Path) -> Translated:
    """Translate a config without its command."""
    return translate_settings(config, path.stem)


def _find_started(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return a command's program, such as `trl grpo`, and its options."""
    for index, (one, two) in enumerate(itertools.pairwise(words)):
        if one == "trl" and two in ("grpo", "rloo"):
            return f"trl {two}", words[index + 2 :]
    for index, word in enumerate(words):
        if words[max(index - 1, 0)] == "-m" or (word.endswith(".py") and not word.startswith("-")):
            return word, words[index + 1 :]
    return "", words


def _read_text(script: str, places: RunFolders) -> str:
    """Return the text of a command's program, or "" if missing."""
    file = places.find(script if script.endswith(".py") else f"{script.replace('.', '/')}.py")
    with contextlib.suppress(OSError, UsageError):
        return "" if file is None else readers.read_text(file)
    return ""


def _parse_arguments(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield `--key value`, `--key=value` and `--flag` as keys and values."""
    left = list(words)
    while left:
        key, equals, text = left.pop(0).partition("=")
        if not key.startswith("--"):
            continue
        values = [text] if equals else []
        while not equals and left and not _FLAG.match(left[0]) and not (values and _OVERRIDE.match(left[0])):
            values.append(left.pop(0))
        known = [_parse_value(value) for value in values]
        yield key[2:].replace("-", "_"), True if not known else known[0] if len(known) == 1 else known


def _parse_value(text: str) -> Any:
    plain, back = replace_unknowns(text)
    with contextlib.suppress(ValueError, yaml.YAMLError):
        return float(plain) if "e" in plain.lower() and plain[:1].isdigit() else back(read_yaml(plain))
    return back(plain)


def _count_processes(words: Sequence[str]) -> int | None:
    """Return the number given by `--num_processes`, or None."""
    flags = dict(
        _parse_arguments([*itertools.takewhile(lambda word: not word.endswith(".py") and word != "trl", words)])
    )
    count = flags.get("num_processes")
    return count if type(count) is int and count > 0 else None
