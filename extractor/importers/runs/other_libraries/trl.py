"""Runs of TRL's GRPOTrainer and RLOOTrainer: commands, YAML and the literals of a script, under verl's names."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from extractor.importers.runs.other_libraries import trl_script
from extractor.importers.runs.other_libraries.translation import ScoredBy, Translated, config_file
from extractor.importers.runs.other_libraries.trl_script import Script
from extractor.importers.runs.other_libraries.trl_settings import GRPO, RLOO, Unread, algorithm_of, translated
from extractor.importers.runs.placeholders import with_words
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
# Reward functions of TRL's own end so.
_OF_TRL = "_reward"


def is_config(body: Any) -> bool:
    """Tell whether a config is one of TRL's trainers."""
    return isinstance(body, Mapping) and any(name in body for name in _OWN)


def is_launch(words: Sequence[str], places: RunFolders) -> bool:
    """Tell whether a command starts one of TRL's trainers."""
    start = started(words, places)
    if start.algorithm or any(word.partition("=")[0] in _FLAGS for word in words):
        return True
    return _script_of(start.file, {}) is not None


def launched(path: Path, words: Sequence[str], places: RunFolders) -> Translated:
    """Translate a command's arguments, and the config that they name.

    Raises:
        UsageError: the config is not here, or the script's settings cannot be read.
    """
    start = started(words, places)
    stated = dict(arguments(start.arguments))
    processes = processes_of(words, places)
    script = _script_of(start.file, stated)
    if script is not None and not script.parses:
        return _of_script(script, stated, processes)
    file = config_file(path, stated.pop("config", None), places)
    try:
        body = {} if file is None else read_mapping(readers.read_text(file), last_counts=True)
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{file}: cannot be read: {error}", hint="correct it") from None
    if script is not None:
        return _of_script(script, {**body, **stated}, processes)
    functions = {"reward_funcs": Unread(f"those of {start.script}")} if start.script else {}
    found = {**functions, **body, **stated}
    return _of_settings(found, processes, start.algorithm or algorithm_of(found, start.script))


def of_config(config: Mapping[str, Any], path: Path) -> Translated:
    """Translate a config that is here without its command."""
    return _of_settings(config, None, algorithm_of(config, path.stem))


def of_python(text: str, path: Path) -> Translated | None:
    """Translate the literals of a Python script; None where it makes no trainer of TRL's.

    Raises:
        UsageError: its settings are on its command line, or are no literals.
    """
    script = trl_script.read(text, path, {})
    if script is not None and script.parses:
        raise UsageError(
            f"{path}: its command line says what its config is",
            hint=f"pass a bash script with the command that starts it: accelerate launch {path.name} --...",
        )
    return None if script is None else _of_script(script, {}, None)


class Started(NamedTuple):
    """What a command starts.

    Attributes:
        script: As the command names it; "": TRL's own.
        file: The script, if it is here.
        arguments: Those of the script.
        algorithm: Of `trl grpo` and `trl rloo`; "" where a script decides.
    """

    script: str
    file: Path | None
    arguments: Sequence[str]
    algorithm: str = ""


def started(words: Sequence[str], places: RunFolders) -> Started:
    """Return what a command starts, behind `accelerate launch`, `torchrun` and the like."""
    for index, (one, two) in enumerate(itertools.pairwise(words)):
        if one == "trl" and two in (GRPO, RLOO):
            return Started("", None, words[index + 2 :], two)
    for index, word in enumerate(words):
        is_module = index > 0 and words[index - 1] == "-m"
        if is_module or (word.endswith(".py") and not word.startswith("-")):
            file = places.find(f"{word.replace('.', '/')}.py" if is_module else word)
            return Started(word, file, words[index + 1 :])
    return Started("", None, words)


def arguments(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield `--key value`, `--key=value` and `--flag` as keys and values."""
    left = list(words)
    while left:
        key, equals, text = left.pop(0).partition("=")
        if not key.startswith("--"):
            continue
        values = [text] if equals else []
        while not equals and left and not _FLAG.match(left[0]) and not (values and _OVERRIDE.match(left[0])):
            values.append(left.pop(0))
        known = [_value(value) for value in values]
        yield key[2:].replace("-", "_"), True if not known else known[0] if len(known) == 1 else known


def _value(text: str) -> Any:
    plain, back = with_words(text)
    with contextlib.suppress(ValueError, yaml.YAMLError):
        return float(plain) if "e" in plain.lower() and plain[:1].isdigit() else back(read_yaml(plain))
    return back(plain)


def processes_of(words: Sequence[str], places: RunFolders) -> int | None:
    """Return how many processes a command starts, by its flags or accelerate's config; None: not said."""
    before = itertools.takewhile(lambda word: not word.endswith(".py") and word not in (GRPO, RLOO), words)
    flags = dict(arguments([*before]))
    nodes = 1
    count = flags.get("num_processes")
    if count is None and "nproc_per_node" in flags:
        count, nodes = flags["nproc_per_node"], flags.get("nnodes", 1)
    if count is None and (file := places.find(str(flags.get("config_file", "")) or ".")) is not None:
        with contextlib.suppress(OSError, UsageError, yaml.YAMLError):
            count = read_mapping(readers.read_text(file)).get("num_processes")
    if not all(isinstance(number, int) and not isinstance(number, bool) and number > 0 for number in (count, nodes)):
        return None
    return int(str(count)) * int(str(nodes))


def _script_of(file: Path | None, stated: Mapping[str, Any]) -> Script | None:
    """Return the training script in a file; None where it is none.

    Raises:
        UsageError: its settings are no literals.
    """
    try:
        text = "" if file is None else readers.read_text(file)
    except (OSError, UsageError):
        return None
    with contextlib.suppress(SyntaxError):
        return None if file is None else trl_script.read(text, file, stated)
    return None


def _of_script(script: Script, stated: Mapping[str, Any], processes: int | None) -> Translated:
    """Translate a script with what its command says.

    Args:
        script: As it was read.
        stated: The command's options, and the config that they name.
        processes: How many train.
    """
    remarks = []
    if script.trainer:
        name = "GRPOTrainer" if script.algorithm == GRPO else "RLOOTrainer"
        remarks.append(
            Remark(name, script.trainer, "not carried over", "a trainer of its own: what it does otherwise than TRL's")
        )
    if script.parses:
        settings = {**script.settings, **stated, **script.assigned}
    else:
        settings = {**script.settings, **script.assigned}
        why = f"an option of {script.path.name}: what it makes of it is not read"
        remarks += [Remark(key, value, "to do", why) for key, value in sorted(stated.items()) if key not in script.used]
    scored_by = script.scored_by(settings.get("reward_weights"))
    found = translated(settings, scored_by, processes, script.algorithm)
    return found._replace(remarks=(*found.remarks, *remarks))


def _of_settings(stated: Mapping[str, Any], processes: int | None, algorithm: str) -> Translated:
    return translated(stated, _named(stated.get("reward_funcs"), stated.get("reward_weights")), processes, algorithm)


def _named(names: Any, weights: Any) -> ScoredBy | None:
    """Return what scores by names that `trl grpo` knows: its own functions, or dotted paths of modules."""
    listed = [names] if isinstance(names, str) else names
    if isinstance(names, Unread) or not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        return None
    parts = [item.rpartition(".") for item in listed]
    is_known = all(dot or name.endswith(_OF_TRL) for _, dot, name in parts)
    if not is_known or not all(word.isidentifier() for item in listed for word in item.split(".")):
        return None
    lines = dict.fromkeys(f"from {module or 'trl.rewards'} import {name}" for module, _, name in parts)
    text = "\n".join(lines) + "\n"
    return trl_script.scored(text, Path("reward_funcs"), [name for _, _, name in parts], weights, None, None)
