"""Commands that start training with TRL: what they start, with which arguments, in how many processes."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from extractor.importers.runs.files import Places
from extractor.importers.runs.other_libraries.trl_losses import GRPO, RLOO
from extractor.importers.runs.python import command_line
from extractor.values import readers
from extractor.values.configtree.compose import read_mapping
from extractor.values.errors import UsageError

# What has commands, and how many of these are looked at and shown.
_COMMANDS, _MOST_FILES, _MOST_SHOWN = (".sh", ".slurm", ".sbatch", ".md"), 300, 3
_OVERRIDE = re.compile(r"[+~]{0,2}\w+(?:\.\w+)+=")
# What `trl` trains by, of what a project can do.
ALGORITHMS = (GRPO, RLOO)


class Started(NamedTuple):
    """What a command starts: a script, or "" for TRL's own; the file, if it is here; and the arguments that it gets.

    `algorithm` is that of TRL's own; "" where a script says what it trains by.
    """

    script: str
    file: Path | None
    arguments: Sequence[str]
    algorithm: str = ""


def started(words: Sequence[str], places: Places) -> Started:
    """Return what a command starts. What stands before a script is for `accelerate launch`, `torchrun` and the like."""
    for index, (one, two) in enumerate(itertools.pairwise(words)):
        if one == "trl" and two in ALGORITHMS:
            return Started("", None, words[index + 2 :], two)
    for index, word in enumerate(words):
        module = words[index - 1] == "-m" if index else False
        if module or (word.endswith(".py") and not word.startswith("-")):
            file = places.find(f"{word.replace('.', '/')}.py" if module else word)
            return Started(word, file, words[index + 1 :])
    return Started("", None, words)


def where_started(script: Path) -> list[str]:
    """Return where the script's repository has commands that start it: bash scripts, and lines of what it says."""
    root = Places.of(script, None).root
    if root is None:
        return []
    started_so = re.compile(rf"(?:launch|python\S*|torchrun)\b[^\n]*[\s/]{re.escape(script.name)}(?![\w.])")
    found: list[str] = []
    files = (file for kind in _COMMANDS for file in sorted(root.rglob(f"*{kind}")))
    for file in itertools.islice(files, _MOST_FILES):
        with contextlib.suppress(OSError, UsageError):
            if started_so.search(readers.read_text(file).replace("\\\n", "  ")):
                found.append(file.relative_to(root).as_posix())
    return found[:_MOST_SHOWN]


def processes_of(words: Sequence[str], places: Places) -> int | None:
    """Return how many processes a command starts, by its flags or the config of accelerate that it names.

    None: it says nothing that can be read.
    """
    flags = _flags(words)
    for name in ("num_processes", "nproc_per_node"):
        if (text := flags.get(name, "")).isdigit():
            nodes = flags.get("nnodes", "1") if name == "nproc_per_node" else "1"
            return int(text) * int(nodes) if nodes.isdigit() else None
    file = places.find(flags["config_file"]) if "config_file" in flags else None
    try:
        body = {} if file is None else read_mapping(readers.read_text(file))
    except (OSError, UsageError, yaml.YAMLError):
        return None
    count = body.get("num_processes")
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None


def _flags(words: Sequence[str]) -> dict[str, str]:
    """Return the flags of whatever starts the script, before it, as text."""
    found = {}
    for one, two in itertools.pairwise((*words, "")):
        if one.endswith(".py") or one in ALGORITHMS:
            break
        key, equals, value = one.partition("=")
        if key.startswith("--"):
            found[key[2:].replace("-", "_")] = value if equals else two
    return found


def arguments(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield `--key value`, `--key=value` and `--flag`."""
    index = 0
    while index < len(words):
        key, equals, text = words[index].partition("=")
        index += 1
        if not key.startswith("--"):
            continue
        values = [text] if equals else []
        while not equals and index < len(words) and not command_line.is_flag(words[index]):
            if values and _is_setting(words[index]):
                break
            values.append(words[index])
            index += 1
        known = [command_line.value(value) for value in values]
        yield key[2:].replace("-", "_"), True if not known else known[0] if len(known) == 1 else known


def _is_setting(word: str) -> bool:
    """Tell whether an argument is a setting of a config, `trainer.seed=1`, and no value of the option before it."""
    return _OVERRIDE.match(word) is not None
