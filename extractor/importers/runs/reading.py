"""Reading a run: a launch script, a list of overrides or a resolved config, as overrides of verl's config."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from extractor.importers.runs import (
    checkout,
    configs,
    embedded_commands,
    launch_reader,
    of_export,
    overrides,
    own_config,
)
from extractor.importers.runs.other_libraries import trl
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.run import Around, Run
from extractor.values import readers
from extractor.values.errors import UsageError

_OF_HYDRA = ("config.yaml", "overrides.yaml")


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
    places = RunFolders.of(path, started_in)
    run = _read(path, Around(given, environment, config_dirs, places))
    places = (run.places if run.places.folders else places).with_python_path(run.environment.get("PYTHONPATH", ""))
    return replace(run, places=places, version=checkout.version_of(places))


def _read(path: Path, around: Around) -> Run:
    if path.is_dir():
        of_wandb = path / "files" / "config.yaml"
        return _read(of_wandb, around) if of_wandb.is_file() else _from_hydra(path, around.places)
    hint = "pass a launch script, overrides or a resolved config"
    try:
        text = readers.read_commented(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", hint=hint) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=hint) from None
    if not text.strip():
        raise UsageError(f"{path}: empty", hint=hint)
    if path.suffix in (".yaml", ".yml", ".json"):
        return _from_yaml(path, text, around)
    if path.suffix in (".py", ".ipynb") and embedded_commands.listed(text) is None:
        return _from_python(path, text, around)
    return _from_words(path, text) or launch_reader.read_launch(path, embedded_commands.script(text), around)


def _from_yaml(path: Path, text: str, around: Around) -> Run:
    """Read a config, or the script of a job."""
    body = configs.yaml_of(path, text)
    job = None if configs.is_config(body) or trl.is_config(body) else embedded_commands.job(body, text)
    if job is None:
        return configs.of_config(path, body, around.places)
    return launch_reader.read_launch(path, job[0], around.with_variables(job[1]))


def _from_words(path: Path, text: str) -> Run | None:
    """Read a list of overrides, Python's or one to a line; None where it is none."""
    listed = embedded_commands.listed(text)
    if listed is not None and any(map(overrides.is_override, listed)):
        return Run(str(path), overrides.read([item for item in listed if overrides.is_override(item)], str(path)))
    text = embedded_commands.script(text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    is_list = path.suffix not in (".sh", ".bash") and not embedded_commands.starts_python(text)
    if is_list and lines and all(overrides.is_override(line.rstrip("\\ ")) for line in lines):
        found = overrides.read([own_config.unquoted(line.rstrip("\\ ")) for line in lines], str(path))
        return Run(str(path), found, hints=of_export.hints(path, text), kept=of_export.kept(path, text))
    return None


def _from_python(path: Path, text: str, around: Around) -> Run:
    """Read a training script of TRL's, or a program or notebook that has the command of a run as a literal."""
    try:
        code, command = embedded_commands.split_notebook(text) if path.suffix == ".ipynb" else (text, "")
        found = trl.of_python(code, path) if not command else None
        commands = [command] if command else embedded_commands.find_commands(code) if found is None else []
    except ValueError as error:
        raise UsageError(f"{path}: no notebook: {error}", hint="pass a notebook, or a script of it") from None
    except SyntaxError as error:
        newer = "f-string" in error.msg and sys.version_info < (3, 12)
        hint = "run vextract with Python 3.12 or later" if newer else "pass a launch script, or one of TRL's"
        raise UsageError(f"{path}:{error.lineno or 1}: no Python: {error.msg}", hint=hint) from None
    if found is not None:
        return configs.translated(path, found)
    if commands:
        return launch_reader.read_launch(path, commands[0], around)
    raise UsageError(
        f"{path}: it starts no trainer of verl's or TRL's, and has no command of a run as a text or a list of texts",
        hint=f"if Hydra configures it: `python {path.name} ... --cfg job --resolve > run.yaml`, and pass run.yaml",
    )


def _from_hydra(folder: Path, at: RunFolders) -> Run:
    """Read what Hydra writes of a run: `.hydra/config.yaml`, of which `overrides.yaml` is what the command line set."""
    places = (folder / ".hydra", folder)
    place = next((item for item in places if all((item / name).is_file() for name in _OF_HYDRA)), None)
    if place is None:
        raise UsageError(
            f"{folder}: no output of Hydra: no .hydra with {' and '.join(_OF_HYDRA)} in it",
            hint="pass the run's directory, outputs/DATE/TIME, or its launch script; a project of that goes on from a "
            "checkpoint of verl's with local.checkpoint.begin_from=.../global_step_N",
        )
    files = [place / name for name in _OF_HYDRA]
    bodies = [configs.yaml_of(file, readers.read_text(file)) for file in files]
    config, of_command = (configs.of_config(file, body, at) for file, body in zip(files, bodies, strict=True))
    if config.resolved is None:
        raise UsageError(f"{place / _OF_HYDRA[0]}: no config", hint="pass the directory as Hydra wrote it")
    return replace(of_command, file=str(folder), defaults=config.resolved, is_whole=True)
