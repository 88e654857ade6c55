"""Programs in Python that start verl's trainer themselves, with a config that they put together.

They are followed as training scripts of other libraries are, and never run. What they start from is verl's own config,
or one that Hydra makes of files; what they set of it, by whatever way, are the run's settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from extractor.importers.runs.bash import too_much
from extractor.importers.runs.meaning import Remark, is_of_another_back_end
from extractor.importers.runs.other_libraries import trl
from extractor.importers.runs.own_config import program_file
from extractor.importers.runs.places import Places
from extractor.importers.runs.python import reach, verls
from extractor.importers.runs.python.follower import Follower
from extractor.importers.runs.python.states import Event, State, plain_of, text_of
from extractor.importers.runs.python.values import DEEPEST, Computed, Items, Listed
from extractor.importers.runs.unknowns import readable
from extractor.values import limits, readers
from extractor.values.configtree import Override
from extractor.values.errors import UsageError

MODULE = "verl.trainer.main_ppo"
_IMPORTS = re.compile(r"^[ \t]*(?:from|import)[ \t]+verl\b", re.MULTILINE)
_TRAINS = re.compile(r"\b(?:run_(?:ppo|dapo|grpo)|main_(?:ppo|dapo|grpo)|Ray\w*Trainer|\w*TaskRunner)\b")
# What a program is followed for, and what else it may hand its config to, by the last part of its name.
_SOUGHT = ("run_ppo", "run_dapo", "run_grpo", "main_task")
_NOTED = (*_SOUGHT, "Trainer", "main", "remote", "run")
# An option of its command line, as the follower calls it.
_OPTION = re.compile(r"\bargs\.(\w+)")
# What a config has besides settings.
_OF_HYDRA = ("hydra", "defaults")


@dataclass(frozen=True)
class Started:
    """Holds the run that a program starts.

    Attributes:
        module: verl's, or the program's file where Hydra makes its config.
        words: The command's arguments, or how a command names the config that the program starts from.
        settings: What the program sets of it, by key.
        remarks: What only the program knows.
        resolved: A config that starts from none of verl's.
        notes: What a user should know.
    """

    module: str
    words: tuple[str, ...] = ()
    settings: tuple[Override, ...] = ()
    remarks: tuple[Remark, ...] = ()
    resolved: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


def launched(words: Sequence[str], places: Places) -> Started | None:
    """Return the run that a command starts by a program that is here; None: it starts none."""
    start = trl.started(words, places)
    if start.file is None:
        return None
    try:
        text = readers.read_text(start.file)
    except (OSError, UsageError):
        return None
    try:
        return read(text, start.file, dict(trl.arguments(start.arguments)), start.arguments)
    except SyntaxError:
        return None


def changed(module: str, words: Sequence[str], places: Places) -> Started | None:
    """Return what a program that Hydra configures sets of its config before it trains; None: it is not here, or other.

    Args:
        module: What is launched, or its file.
        words: The overrides of its command.
        places: Where it may have been started from.
    """
    file = places.find_like(program_file(module))
    try:
        found = None if file is None else read(readers.read_text(file), file, {}, words)
    except (OSError, SyntaxError, UsageError):
        return None
    return found if found is not None and found.module == str(file) else None


def read(text: str, path: Path, given: Mapping[str, Any], words: Sequence[str] | None = None) -> Started | None:
    """Read a program; None where it starts no trainer of verl's.

    Args:
        text: Of the program.
        path: Of the program.
        given: What its command line says.
        words: The same, as it is written; None: it is brought without a command.

    Raises:
        SyntaxError: it is no Python.
        UsageError: its config is not known.
    """
    places = Places.of(path, None) if path.is_file() else None
    if not any(_IMPORTS.search(one) and _TRAINS.search(one) for one in reach.texts(text, path, places)):
        return None
    tree = readers.python(text)
    run = Follower(tree, path, given, places, _NOTED, (_SOUGHT,), words, opens=True)
    run.follow()
    for event in run.events:
        for value in (*event.made.given, *event.made.named.items.values()):
            if verls.is_config(value, event.state):
                return _started(value, event, run, path, words)
    return None


def _started(value: Any, event: Event, run: Follower, path: Path, words: Sequence[str] | None) -> Started:
    config = event.state.of(value)
    assert isinstance(config, Items)
    if run.unnamed:
        option = _OPTION.fullmatch(run.unnamed[0])
        raise UsageError(
            f"{path}: only who starts it knows its config: {readable(run.unnamed[0])}",
            hint=f"--set {option[1]}=FILE says it" if option else "pass a script with the command that starts it",
        )
    notes = [
        f"{readable(text)}: not known without running the program; what it sets is not carried over"
        for text in config.unread
    ]
    plain = plain_of(value, event.state)
    if not config.is_open and isinstance(plain, dict):
        return Started(MODULE, resolved={key: item for key, item in plain.items() if key not in _OF_HYDRA})
    settings, remarks = [], []
    leaves = [*islice(_leaves(config, event.state, ""), limits.MAX_OVERRIDES + 1)]
    if len(leaves) > limits.MAX_OVERRIDES:
        raise too_much(str(path), f"more than {limits.MAX_OVERRIDES:,} settings")
    by_hydra = config.origin == (verls.BY_HYDRA,)
    known = dict(_leaves(run.items_of(verls.of_command(run)), run.state, "")) if by_hydra else {}
    for key, item in leaves:
        is_known = key in known and known[key] == item and type(known[key]) is type(item)
        if is_known or is_of_another_back_end(key):
            continue
        if isinstance(item, Computed):
            option = _OPTION.search(item)
            said = f"--set {option[1]}=... says it, or set it in config/" if option else "set it in config/"
            why = f"not known without running the program: {said}"
            remarks.append(Remark(key, readable(str(item)), "to do", why))
        else:
            settings.append(Override("++", key, item, f"{key}={item}"))
    module, origin = (str(path), words or ()) if by_hydra else (MODULE, config.origin)
    return Started(module, tuple(origin), tuple(settings), tuple(remarks), notes=tuple(notes))


def _leaves(config: Items, state: State, above: str) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a config, by key; `Computed` where only the program knows."""
    for name, value in config.items.items():
        key = f"{above}{name}"
        found = state.of(value)
        if not above and name in _OF_HYDRA:
            continue
        if isinstance(found, Items) and (found.items or found.is_open) and key.count(".") < DEEPEST:
            yield from _leaves(found, state, f"{key}.")
        elif name in config.doubtful:
            yield key, Computed(text_of(value, state))
        elif isinstance(value, str) and not isinstance(value, Computed):
            yield key, value
        else:
            yield key, _list(found, state) if isinstance(found, Listed) else plain_of(value, state)


def _list(found: Listed, state: State) -> Any:
    if not found.is_whole:
        return Computed(found.depends or "...")
    items = [item if type(item) is str else plain_of(item, state) for item in found.items]
    unknown = [item for item in items if isinstance(item, Computed)]
    return Computed(f"[{', '.join(map(str, items))}]") if unknown else items
