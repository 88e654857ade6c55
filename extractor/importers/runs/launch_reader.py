"""Read what a script launches: the first launch of a trainer among all that it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from extractor.importers.runs import configs, of_export, overrides, own_config, programs
from extractor.importers.runs.bash import Command, ScriptReading, read_script
from extractor.importers.runs.other_libraries import easyr1, trl
from extractor.importers.runs.placeholders import readable, unknowns, with_words
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.run import Around, Run
from extractor.values import readers
from extractor.values.errors import UsageError

_Launches = list[tuple[Command, tuple[str, list[str]]]]
# What schedulers and clouds call the number of a machine; scripts start the run on the first.
_FIRST = re.compile(r"\b(?:\w+_)?(?:NODE_?RANK|RANK|ROLE_INDEX|TASK_INDEX|WORKER_INDEX|NODE_?ID|NODE_?INDEX|PROCID)\b")
_CHANGE = re.compile(
    r"^[ \t]+(?:config|cfg)\.(?P<key>(?:actor_rollout_ref|algorithm|critic|data|trainer)[\w.]*) *[*+/-]?= ",
    re.MULTILINE,
)


def read_launch(path: Path, text: str, around: Around) -> Run:
    """Return the run that a bash script starts.

    Args:
        path: Of the script, or of the page or job that it stands in.
        text: Of the script.
        around: What it is read with.

    Raises:
        UsageError: it starts nothing that can be converted.
    """
    reading, launches, notes = _find_launches(path, text, around)
    if not launches:
        return _by_another_program(path, text, reading, around)
    notes += _of_several([command.line for command, _ in launches])
    command, (module, arguments) = launches[0]
    places = _where(command, around)
    if easyr1.is_launch(module, arguments):
        notes += [] if module == easyr1.MODULE else _is_another(module, command.line, "EasyR1's")
        return replace(
            configs.translated(path, easyr1.launched(path, arguments, places)), notes=tuple(notes), places=places
        )
    config = own_config.read(module, arguments, path, around.config_dirs, places)
    sections = {section for body in config.overlay for section in body}
    if foreign := programs.foreign_sections(module, arguments, sections):
        raise UsageError(
            f"{path}:{command.line}: {module} is no trainer of verl's: it takes settings of {' and '.join(foreign)}",
            hint="pass a run of verl, of a fork of it, of EasyR1 or of TRL",
        )
    run = _configured(path, module, config, command.line)
    return replace(
        run,
        notes=(*notes, *run.notes, *_find_changes(module, places)),
        hints=of_export.hints(path, text),
        kept=of_export.kept(path, text),
        environment=command.environment,
        places=places,
    )


def _find_launches(path: Path, text: str, around: Around) -> tuple[ScriptReading, _Launches, list[str]]:
    """Return what a script runs, its launches of trainers, and notes.

    Where it starts nothing, it is read as on the first of several machines.
    """
    reading, launches = _read_where_started(path, text, around)
    notes = []
    known = {**around.given, **around.environment}
    first = {name: "0" for name in sorted(set(_FIRST.findall(text))) if name not in known}
    if not launches and first:
        again, started = _read_where_started(path, text, replace(around, given={**first, **around.given}))
        if started:
            reading, launches = again, started
            notes.append(f"read as on the first machine: {' '.join(f'{name}=0' for name in first)}")
    taken = [command for command, _ in launches[:1]]
    for command in reading.commands:
        if command not in taken and command.words[:2] == ("ray", "start"):
            notes.append(f"line {command.line}: ray start: a project needs no Ray")
    return reading, launches, [*reading.notes, *notes]


def _read_where_started(path: Path, text: str, around: Around) -> tuple[ScriptReading, _Launches]:
    """Read a script as it would run where it is started: there most of what it names exists, and its program."""
    places = around.places
    best: tuple[int, ScriptReading, _Launches] | None = None
    guessed = not places.is_said and re.search("PWD|pwd", text) is not None
    for folder in places.folders if guessed else places.folders[:1]:
        environment = {"PWD": str(folder), **around.environment}
        reading = read_script(text, str(path), around.given, environment, (), places.within)
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


def _where(command: Command, around: Around) -> RunFolders:
    """Return where a command's paths may lead: its script may have gone elsewhere."""
    return around.places.gone_to(command.environment.get("PWD", ""))


def _find_changes(module: str, places: RunFolders) -> list[str]:
    """Say which settings a program changes in Python, where it is here and not verl's: those are not carried over."""
    file = None if module == programs.VERLS else places.find_like(own_config.program_file(module))
    try:
        text = "" if file is None else readers.read_text(file)
    except (OSError, UsageError):
        return []
    found = {item["key"]: text.count("\n", 0, item.start()) + 1 for item in _CHANGE.finditer(text)}
    return [f"{file}:{line}: it sets {key} in Python, which is not carried over" for key, line in found.items()]


def _by_another_program(path: Path, text: str, reading: ScriptReading, around: Around) -> Run:
    """Read a script without settings for verl's trainer: a launch of TRL's, or nothing that can be converted."""
    ran = [(command, _where(command, around)) for command in reading.commands]
    of_trl = [(command, places) for command, places in ran if trl.is_launch(command.words, places)]
    if of_trl:
        command, places = of_trl[0]
        found = replace(configs.translated(path, trl.launched(path, command.words, places)), places=places)
        return replace(found, notes=(*reading.notes, *_of_several([command.line for command, _ in of_trl])))
    what, hint = programs.instead([command.words for command, _ in ran], text)
    raise UsageError(f"{path}: {what}", hint=hint)


def _configured(path: Path, module: str, config: own_config.OwnConfig, line: int) -> Run:
    """Return the run of a program with the config and the arguments that it is started with."""
    words = [word for word in config.words if overrides.is_override(word)]
    stated = overrides.read(words, f"{path}:{line}")
    odd = [word for word in words if overrides.is_odd(with_words(word)[0])]
    notes = [*_about_the_trainer(module, line), *config.notes]
    notes += [f"{readable(word)}: Hydra would refuse it, and its text is taken" for word in odd]
    for word in config.words:
        if not overrides.is_override(word):
            if unknowns(word) == (word[1:-1],):
                notes.append(f"{readable(word)}: what it may add is not known")
            elif word not in ("&",):
                notes.append(f"{readable(word)}: no override, left out")
    return Run(
        str(path),
        stated,
        config_name=config.name,
        program=module,
        defaults=config.defaults,
        overlay=config.overlay,
        notes=tuple(notes),
    )


def _of_several(lines: Sequence[int]) -> list[str]:
    """Say which launch of a script is taken, where it has several."""
    several = f"{len(lines)} launches: the first, in line {lines[0]}, is the one that is taken"
    return [several] if len(lines) > 1 else []


def _about_the_trainer(module: str, line: int) -> list[str]:
    """Say that a program is another trainer than verl's main_ppo, if it is; its line is that of the launch."""
    if "main_ppo" in module or Run("", program=module).is_prime:
        return []
    return _is_another(module, line, "main_ppo")


def _is_another(module: str, line: int, usual: str) -> list[str]:
    return [f"line {line}: {module} is another trainer than {usual}: what only it does is not carried over"]
