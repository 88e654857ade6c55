"""What a script or a program starts: the first launch of a trainer among all that it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from extractor.importers.runs import (
    configs,
    of_export,
    overrides,
    own_config,
    prime,
    programs,
    python_launchers,
    python_trainers,
)
from extractor.importers.runs.bash import Command, Reading
from extractor.importers.runs.files import Places
from extractor.importers.runs.launches import launches_of
from extractor.importers.runs.other_libraries import easyr1, trl
from extractor.importers.runs.run import Around, Run
from extractor.importers.runs.unknowns import readable, unknowns, with_words
from extractor.values.errors import UsageError


def by_script(path: Path, text: str, around: Around, *, is_by_a_program: bool = False) -> Run:
    """Return the run that a bash script starts.

    Args:
        path: Of the script, or of the program whose command it is.
        text: Of the script.
        around: What it is read with.
        is_by_a_program: Whether a program has made it: one that it starts itself is not followed.

    Raises:
        UsageError: it starts nothing that can be converted.
    """
    reading, launches, notes = launches_of(path, text, around.given, around.environment, around.places)
    if not launches:
        return _by_another_program(path, text, reading, around, is_by_a_program=is_by_a_program)
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
    changed = python_trainers.changed(module, config.words, places)
    run = run if changed is None else _with(run, changed)
    return replace(
        run,
        notes=(*notes, *run.notes),
        hints=of_export.hints(path, text),
        kept=of_export.kept(path, text),
        environment=command.environment,
        places=places,
        script=text,
    )


def _where(command: Command, around: Around) -> Places:
    """Return where a command's paths may lead: its script may have gone elsewhere."""
    return around.places.gone_to(command.environment.get("PWD", ""))


def _by_another_program(path: Path, text: str, reading: Reading, around: Around, *, is_by_a_program: bool) -> Run:
    """Read a script without settings for verl's trainer: a launch of TRL's, or of a program that goes on to one."""
    ran = [(command, _where(command, around)) for command in reading.commands]
    of_trl = [(command, places) for command, places in ran if trl.is_launch(command.words, places)]
    if of_trl:
        command, places = of_trl[0]
        found = replace(configs.translated(path, trl.launched(path, command.words, places)), places=places)
        return replace(found, notes=(*reading.notes, *_of_several([command.line for command, _ in of_trl])))
    for command, places in ran:
        started = python_trainers.launched(command.words, places)
        if started is not None:
            run = by_program(path, started, replace(around, places=places), reading.notes)
            return replace(run, places=places, environment=command.environment)
    for command, places in ran if not is_by_a_program else ():
        launch = python_launchers.started(command.words, places)
        if launch:
            there = replace(around, places=places).with_variables(command.environment)
            found = by_script(path, launch, there, is_by_a_program=True)
            return replace(found, notes=(*reading.notes, *found.notes))
    what, hint = programs.instead([command.words for command, _ in ran], text)
    raise UsageError(f"{path}: {what}", hint=hint)


def _configured(path: Path, module: str, config: own_config.OwnConfig, line: int | None) -> Run:
    """Return the run of a program with the config and the arguments that it is started with.

    Args:
        path: The script, or the program.
        module: What is launched.
        config: What it starts from, and its other arguments.
        line: Of the launch; None: it is in no script.
    """
    words = [word for word in config.words if overrides.is_override(word)]
    stated = overrides.read(words, str(path) if line is None else f"{path}:{line}")
    odd = [word for word in words if overrides.is_odd(with_words(word)[0])]
    notes = [*about_the_trainer(module, line), *config.notes]
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


def by_program(path: Path, found: python_trainers.Started, around: Around, notes: Sequence[str] = ()) -> Run:
    """Return the run that a program starts with a config that it puts together."""
    if found.resolved is not None:
        return replace(configs.of_config(path, dict(found.resolved), around.places), notes=(*notes, *found.notes))
    config = own_config.read(found.module, found.words, path, around.config_dirs, around.places)
    run = _with(_configured(path, found.module, config, None), found)
    return replace(run, notes=(*notes, *run.notes))


def _with(run: Run, found: python_trainers.Started) -> Run:
    """Return a run with what its program sets of its config."""
    return replace(
        run,
        overrides=(*run.overrides, *found.settings),
        notes=(*run.notes, *found.notes),
        remarks=(*run.remarks, *found.remarks),
    )


def _of_several(lines: Sequence[int]) -> list[str]:
    """Say which launch of a script is taken, where it has several."""
    several = f"{len(lines)} launches: the first, in line {lines[0]}, is the one that is taken"
    return [several] if len(lines) > 1 else []


def about_the_trainer(module: str, line: int | None) -> list[str]:
    """Say that a program is another trainer than verl's main_ppo, if it is; its line is that of the launch."""
    if "main_ppo" in module or prime.is_launch(module):
        return []
    return _is_another(module, line, "main_ppo")


def _is_another(module: str, line: int | None, usual: str) -> list[str]:
    where = "" if line is None else f"line {line}: "
    return [f"{where}{module} is another trainer than {usual}: what only it does is not carried over"]
