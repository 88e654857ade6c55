"""Read a launch script or a config as a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from extractor.importers.runs import launch_reader
from extractor.importers.runs.other_libraries import easyr1, trl
from extractor.importers.runs.run import ReadOptions, Run, read_overrides
from extractor.importers.runs.run_folders import RunFolders
from extractor.values import readers
from extractor.values.configtree.compose import read_yaml
from extractor.values.errors import UsageError

_VERSION, _LONGEST = "verl/version/version", 40
_OF_HYDRA = ("config.yaml", "overrides.yaml")
_HINT = "pass a launch script or a resolved config"


def read_run(
    path: Path,
    given: Mapping[str, str],
    environment: Mapping[str, str],
    config_dirs: Sequence[Path] = (),
    started_in: Path | None = None,
) -> Run:
    """Read a run.

    Args:
        path: A bash script, a config, or what a run has left behind: a file or a directory.
        given: Variables set by the user (`--set VAR=VALUE`).
        environment: Variables that a script may count on, such as HOME.
        config_dirs: Where to look for configs that the run names.
        started_in: The directory that it is started in; None: guessed.

    Raises:
        UsageError: no such file, not readable, or it starts nothing that can be converted.
    """
    places = RunFolders.of(path, started_in)
    run = _read(path, ReadOptions(given, environment, config_dirs, places))
    places = (run.places if run.places.folders else places).add_python_path(run.environment.get("PYTHONPATH", ""))
    return replace(run, places=places, version=_read_version(places))


def _read_version(places: RunFolders) -> str | None:
    """Return the version of the checkout's verl, or None."""
    file = places.find(_VERSION)
    try:
        text = "" if file is None else readers.read_text(file).strip()
        return str(Version(text)) if len(text) <= _LONGEST else None
    except (OSError, InvalidVersion):
        return None


def _read(path: Path, around: ReadOptions) -> Run:
    if path.is_dir():
        return _read_hydra(path, around.places)
    try:
        text = readers.read_commented(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", hint=_HINT) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=_HINT) from None
    if not text.strip():
        raise UsageError(f"{path}: empty", hint=_HINT)
    if path.suffix in (".yaml", ".yml", ".json"):
        return _read_config(path, _parse_yaml(path, text), around.places)
    if path.suffix in (".py", ".ipynb", ".md"):
        raise UsageError(
            f"{path}: programs, notebooks and pages are not read",
            hint="pass a bash script with its command; if Hydra configures it, append `--cfg job --resolve > run.yaml` "
            "to the command, and pass run.yaml; of TRL's trainer, its settings as YAML",
        )
    return launch_reader.read_launch(path, text, around)


def _parse_yaml(path: Path, text: str) -> Any:
    """Parse YAML; in TRL configs a repeated key's last value counts."""
    try:
        config = read_yaml(text, last_counts=True)
        return config if trl.is_config(config) else read_yaml(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}", hint="correct the file") from None


def _read_config(path: Path, config: Any, places: RunFolders) -> Run:
    """Return the run of a config or Hydra's list of overrides."""
    if isinstance(config, list) and all(isinstance(item, str) for item in config):
        return Run(str(path), read_overrides(config, str(path)))
    if easyr1.is_config(config):
        return easyr1.translate_config(path, config, places)
    if trl.is_config(config):
        return trl.translate_config(path, config)
    if not isinstance(config, dict) or not {"data", "actor_rollout_ref"} & config.keys():
        raise UsageError(
            f"{path}: no config of verl's trainer: neither data nor actor_rollout_ref in it",
            hint="pass what `--cfg job --resolve` prints, .hydra/config.yaml, or a bash script with a job's command",
        )
    config.pop("hydra", None)
    return Run(str(path), resolved=config)


def _read_hydra(folder: Path, at: RunFolders) -> Run:
    """Read Hydra's output: `config.yaml` and the command line's `overrides.yaml`."""
    places = (folder / ".hydra", folder)
    place = next((item for item in places if all((item / name).is_file() for name in _OF_HYDRA)), None)
    if place is None:
        raise UsageError(
            f"{folder}: no output of Hydra: no .hydra with {' and '.join(_OF_HYDRA)} in it",
            hint="pass the run's directory, outputs/DATE/TIME, or its launch script; a project of that goes on from a "
            "checkpoint of verl's with local.checkpoint.begin_from=.../global_step_N",
        )
    files = [place / name for name in _OF_HYDRA]
    config, of_command = (_read_config(file, _parse_yaml(file, readers.read_text(file)), at) for file in files)
    if config.resolved is None:
        raise UsageError(f"{place / _OF_HYDRA[0]}: no config", hint="pass the directory as Hydra wrote it")
    return replace(of_command, file=str(folder), defaults=config.resolved, is_whole=True)
