"""Reading a run: a launch script, a list of overrides or a resolved config, as overrides of verl's config."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from extractor.importers.runs import (
    checkout,
    configs,
    of_checkpoint,
    of_export,
    overrides,
    own_config,
    pasted,
    programs,
    python_launchers,
    python_trainers,
    starts,
)
from extractor.importers.runs.other_libraries import trl
from extractor.importers.runs.places import Places
from extractor.importers.runs.recorded import editors, logs, trackers
from extractor.importers.runs.run import Around, Run
from extractor.values import readers
from extractor.values.errors import UsageError

_OF_HYDRA = ("config.yaml", "overrides.yaml")
_NO_LOG = (".bash", ".ipynb", ".json", ".md", ".py", ".rst", ".sh", ".yaml", ".yml")
# By which one of several configurations of VS Code's is chosen.
_CONFIGURATION = "configuration"


def read_run(
    path: Path,
    given: Mapping[str, str],
    environment: Mapping[str, str],
    config_dirs: Sequence[Path] = (),
    started_in: Path | None = None,
) -> Run:
    """Read a run.

    Args:
        path: A bash script, a config, a program, or what a run has left behind: a file or a directory.
        given: Variables set by the user (`--set VAR=VALUE`).
        environment: Variables that a script may count on, such as HOME.
        config_dirs: Where to look for configs that the run names.
        started_in: The directory that it is started in; None: guessed.

    Raises:
        UsageError: no such file, not readable, or it starts nothing that can be converted.
    """
    places = Places.of(path, started_in)
    run = _read(path, Around(given, environment, config_dirs, places))
    places = (run.places if run.places.folders else places).with_python_path(run.environment.get("PYTHONPATH", ""))
    return replace(run, places=places, version=checkout.version_of(places))


def _read(path: Path, around: Around) -> Run:
    if path.is_dir():
        return _from_folder(path, around.places)
    try:
        logged = None if path.suffix in _NO_LOG else logs.read(readers.read_start(path), configs.is_whole)
        if logged is not None and logged.config:
            return _from_log(path, logged, around.places)
        text = readers.read_commented(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", hint="pass a launch script, overrides or a resolved config") from None
    except OSError as error:
        hint = "pass a text file, or a log that has the run's config"
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=hint) from None
    if not text.strip():
        raise UsageError(f"{path}: empty", hint="pass a launch script, overrides or a resolved config")
    if path.suffix in (".yaml", ".yml"):
        body = configs.yaml_of(path, text)
        job = None if configs.is_config(body) or trl.is_config(body) else pasted.job(body, text)
        if job is None:
            return configs.of_config(path, trackers.unwrapped(body), around.places)
        return starts.by_script(path, job[0], around.with_variables(job[1]))
    if path.suffix == ".json":
        return _from_json(path, text, around)
    if path.suffix in (".py", ".ipynb") and pasted.listed(text) is None:
        return _from_python(path, text, around)
    return _from_words(path, text) or starts.by_script(path, pasted.script(text), around)


def _from_folder(folder: Path, places: Places) -> Run:
    checkpoint = of_checkpoint.find(folder)
    if checkpoint is not None:
        return _from_checkpoint(checkpoint)
    if not (folder / ".hydra").is_dir() and trackers.is_run(folder):
        return configs.of_config(folder, trackers.read(folder), places)
    return _from_hydra(folder, places)


def _from_words(path: Path, text: str) -> Run | None:
    """Read a list of overrides, Python's or one to a line; None where it is none."""
    listed = pasted.listed(text)
    if listed is not None and any(map(overrides.is_override, listed)):
        return Run(str(path), overrides.read([item for item in listed if overrides.is_override(item)], str(path)))
    text = pasted.script(text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    is_list = path.suffix not in (".sh", ".bash") and not pasted.starts_python(text)
    if is_list and lines and all(overrides.is_override(line.rstrip("\\ ")) for line in lines):
        found = overrides.read([own_config.unquoted(line.rstrip("\\ ")) for line in lines], str(path))
        return Run(str(path), found, hints=of_export.hints(path, text), kept=of_export.kept(path, text))
    return None


def _from_python(path: Path, text: str, around: Around) -> Run:
    """Read a training script of TRL's, or the command by which a notebook or another program starts a run."""
    found = None
    try:
        command = pasted.commands_of(text) if path.suffix == ".ipynb" else ""
        if not pasted.launches(command):
            code = pasted.notebook(text) if path.suffix == ".ipynb" else text
            started = python_trainers.read(code, path, around.given)
            if started is not None:
                return starts.by_program(path, started, around)
            found = trl.of_python(code, path)
            command = "" if found is not None else python_launchers.script_of(code, path, around.given)
    except ValueError as error:
        raise UsageError(f"{path}: no notebook: {error}", hint="pass a notebook, or a script of it") from None
    except SyntaxError as error:
        newer = "f-string" in error.msg and sys.version_info < (3, 12)
        hint = "run vextract with Python 3.12 or later" if newer else "pass a launch script, or one of TRL's"
        place = str(path) if error.lineno is None else f"{path}:{error.lineno}"
        raise UsageError(f"{place}: no Python: {error.msg}", hint=hint) from None
    if command:
        return starts.by_script(path, command, around)
    if found is None:
        raise UsageError(
            f"{path}: it starts no trainer of verl's or TRL's, nor a run by a command",
            hint="pass the script that starts the training",
        )
    return configs.translated(path, found)


def _from_checkpoint(place: Path) -> Run:
    found = of_checkpoint.read(place)
    return Run(str(place), found.overrides, kept=found.kept, remarks=found.remarks, is_bare=True)


def _from_log(path: Path, logged: logs.Logged, places: Places) -> Run:
    """Read the config that a run has printed, of which its command says what it sets."""
    run = configs.of_config(path, logged.config, places)
    program, words = programs.launched(logged.command) or ("", logged.command or logged.overrides)
    if run.resolved is not None and words is not None:
        said = overrides.read([word for word in words if overrides.is_override(word)], str(path))
        run = replace(run, overrides=said, defaults=run.resolved, resolved=None, is_whole=True)
    notes = starts.about_the_trainer(program, logged.line) if program else []
    if logged.configs > 1:
        notes.append(f"{logged.configs} configs: the last, in line {logged.line}, is the one that is taken")
    return replace(run, program=program, notes=tuple(notes))


def _from_json(path: Path, text: str, around: Around) -> Run:
    """Read a config, what W&B notes of a command, or how VS Code launches a run."""
    try:
        body = editors.parsed(text)
    except ValueError as error:
        raise UsageError(f"{path}: no JSON: {error}", hint="correct the file") from None
    command = trackers.command_of(body)
    if command:
        return starts.by_script(path, shlex.join(command), around)
    if command is not None:  # of a worker of Ray's, beside which the config is
        return _read(path.resolve().parents[1], around)
    launches = editors.launches(body, path)
    if not launches:
        return configs.of_config(path, trackers.unwrapped(body), around.places)
    asked = around.given.get(_CONFIGURATION)
    found = next((item for item in launches if asked in (None, item.name)), None)
    if found is None:
        names = ", ".join(item.name for item in launches)
        raise UsageError(
            f"{path}: no configuration {asked} that trains", hint=f"--set {_CONFIGURATION}=... of: {names}"
        )
    run = starts.by_script(path, found.script, around.with_variables(found.environment))
    several = f"{len(launches)} configurations: {found.name} is the one that is taken (--set {_CONFIGURATION}=NAME)"
    return replace(run, notes=(*run.notes, several)) if len(launches) > 1 and asked is None else run


def _from_hydra(folder: Path, at: Places) -> Run:
    """Read what Hydra writes of a run: `.hydra/config.yaml`, of which `overrides.yaml` is what the command line set."""
    places = (folder / ".hydra", folder)
    place = next((item for item in places if all((item / name).is_file() for name in _OF_HYDRA)), None)
    if place is None:
        raise UsageError(
            f"{folder}: no output of Hydra (no .hydra with {' and '.join(_OF_HYDRA)} in it), nor a checkpoint of verl",
            hint="pass the run's directory, outputs/DATE/TIME, a global_step_N directory, or a launch script",
        )
    files = [place / name for name in _OF_HYDRA]
    bodies = [configs.yaml_of(file, readers.read_text(file)) for file in files]
    config, of_command = (configs.of_config(file, body, at) for file, body in zip(files, bodies, strict=True))
    if config.resolved is None:
        raise UsageError(f"{place / _OF_HYDRA[0]}: no config", hint="pass the directory as Hydra wrote it")
    return replace(of_command, file=str(folder), defaults=config.resolved, is_whole=True)
