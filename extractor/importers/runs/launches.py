"""What a launch script starts: the commands among all that it runs, read as it would run where it is started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from extractor.importers.runs import own_config, programs
from extractor.importers.runs.bash import Command, Reading, read_script
from extractor.importers.runs.other_libraries import trl
from extractor.importers.runs.places import Places
from extractor.values import readers

_Launches = list[tuple[Command, tuple[str, list[str]]]]
# What schedulers and clouds call the number of a machine; scripts start the run on the first.
_FIRST = re.compile(r"\b(?:\w+_)?(?:NODE_?RANK|RANK|ROLE_INDEX|TASK_INDEX|WORKER_INDEX|NODE_?ID|NODE_?INDEX|PROCID)\b")


def launches_of(
    path: Path, text: str, given: Mapping[str, str], environment: Mapping[str, str], places: Places
) -> tuple[Reading, _Launches, list[str]]:
    """Read a script; where it starts nothing, as on the first of several machines.

    Args:
        path, text: Of the script.
        given: Variables set by the user.
        environment: Variables that the script may count on.
        places: Where it may be started.

    Returns:
        All that it runs, the launches of trainers, and what a user should know of how it was read.
    """
    reading, launches = _read(path, text, given, environment, places)
    notes = []
    first = {name: "0" for name in sorted(set(_FIRST.findall(text))) if name not in {**given, **environment}}
    if not launches and first:
        again, started = _read(path, text, {**first, **given}, environment, places)
        if started:
            reading, launches = again, started
            notes.append(f"read as on the first machine: {' '.join(f'{name}=0' for name in first)}")
    taken = [command for command, _ in launches[:1]]
    for command in reading.commands:
        if command not in taken and command.words[:2] == ("ray", "start"):
            notes.append(f"line {command.line}: ray start: a project needs no Ray")
    return reading, launches, [*reading.notes, *notes]


def _read(
    path: Path, text: str, given: Mapping[str, str], environment: Mapping[str, str], places: Places
) -> tuple[Reading, _Launches]:
    """Read a script as it would run where it is started: there most of what it names exists, and its program."""
    best: tuple[int, Reading, _Launches] | None = None
    guessed = not places.is_said and re.search("PWD|pwd", text) is not None
    for folder in places.folders if guessed else places.folders[:1]:
        reading = read_script(text, str(path), given, {"PWD": str(folder), **environment}, (), places.within)
        launches = [
            (command, found)
            for command in reading.commands
            if (found := programs.launched(command.words)) is not None and not trl.is_launch(command.words, places)
        ]
        words = {word.partition("=")[2] or word for command, _ in launches[:1] for word in command.words}
        count = sum(word.startswith(f"{folder}/") and readers.is_there(Path(word)) for word in words)
        count += any(readers.is_there(folder / own_config.program_file(module)) for _, (module, _) in launches[:1])
        if best is None or count > best[0]:
            best = count, reading, launches
    assert best is not None
    return best[1:]
