"""Read a launch script, overrides or a config as a run."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from extractor.importers.runs import launch_reader
from extractor.importers.runs.other_libraries import easyr1, trl
from extractor.importers.runs.run import ReadOptions, Run, is_override, read_overrides
from extractor.importers.runs.run_folders import RunFolders
from extractor.values import readers
from extractor.values.configtree.compose import read_yaml
from extractor.values.errors import UsageError

_VERSION, _LONGEST = "verl/version/version", 40
_OF_HYDRA = ("config.yaml", "overrides.yaml")
_HINT = "pass a launch script, overrides or a resolved config"
# What launches a run, of verl's, EasyR1's or TRL's.
_LAUNCH = re.compile(r"\b(?:main_(?:ppo|dapo|grpo)|verl\.trainer\.main|trl (?:grpo|rloo)|accelerate launch)\b")
_PROGRAM = re.compile(r"^[ \t$>]*(?:\w+=\S* )*(?:\S*/)?(?:python[\d.]*|torchrun|uv run)\b.*\.py\b", re.MULTILINE)
_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
_ENVIRONMENT = ("envs", "env", "environment")
_PROMPT = re.compile(r"^[ \t]*[$>] ", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```\w*[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


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
        return _read_yaml(path, text, around)
    if path.suffix in (".py", ".ipynb"):
        raise UsageError(
            f"{path}: programs and notebooks are not read",
            hint="pass a bash script with its command; if Hydra configures it, append `--cfg job --resolve > run.yaml` "
            "to the command, and pass run.yaml; of TRL's trainer, its settings as YAML",
        )
    return _read_words(path, text) or launch_reader.read_launch(path, read_pasted_script(text), around)


def _read_yaml(path: Path, text: str, around: ReadOptions) -> Run:
    """Read a config, or the script of a job."""
    body = _parse_yaml(path, text)
    is_verls = isinstance(body, dict) and bool({"data", "actor_rollout_ref"} & body.keys())
    job = None if is_verls or trl.is_config(body) else read_job(body, text)
    if job is None:
        return _read_config(path, body, around.places)
    return launch_reader.read_launch(path, job[0], replace(around, environment={**around.environment, **job[1]}))


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
            hint="pass what `--cfg job --resolve` prints, .hydra/config.yaml of a run, or a job that launches one",
        )
    config.pop("hydra", None)
    return Run(str(path), resolved=config)


def _read_words(path: Path, text: str) -> Run | None:
    """Read a list of overrides, one per line, or return None."""
    text = read_pasted_script(text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    runs_python = any(_PYTHON.fullmatch(word) for word in text.split())
    is_list = path.suffix not in (".sh", ".bash") and not runs_python
    if is_list and lines and all(is_override(line.rstrip("\\ ")) for line in lines):
        found = read_overrides([launch_reader.unquote(line.rstrip("\\ ")) for line in lines], str(path))
        return Run(str(path), found)
    return None


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


def read_pasted_script(text: str) -> str:
    """Return a pasted script without fences and terminal prompts.

    Of several fences those count that launch a run or, if none does, start a program; lines keep their numbers.
    """
    fences = [*_FENCE.finditer(text)]
    fenced = [found for found in fences if _LAUNCH.search(found[1])]
    fenced = fenced or [found for found in fences if _PROGRAM.search(found[1])]
    if fenced:
        lines = [""] * (text.count("\n") + 1)
        for found in fenced:
            first, inside = text.count("\n", 0, found.start(1)), found[1].splitlines()
            lines[first : first + len(inside)] = inside
        text = "\n".join(lines)
    return _PROMPT.sub("", text) if re.search(r"^[ \t]*\$ \S", text, re.MULTILINE) else text


def read_job(body: Any, text: str) -> tuple[str, dict[str, str]] | None:
    """Return a job YAML's script and its variables, or None."""
    texts = [*_list_texts(body)]
    found = next((item for which in (_LAUNCH, _PROGRAM) for item in texts if which.search(item)), None)
    if found is None or not isinstance(body, Mapping):
        return None
    found = re.sub(r"\$\$(?=[A-Za-z_{(])", "$", found)  # as a job's tool hands it to the shell
    given = next((body[name] for name in _ENVIRONMENT if name in body), None)
    pairs = given.items() if isinstance(given, Mapping) else [str(item).partition("=")[::2] for item in given or ()]
    variables = {str(name): str(value) for name, value in pairs if isinstance(value, str | int | float) and value != ""}
    first = next(line.strip() for line in found.splitlines() if line.strip())
    before = [line.strip() for line in text.splitlines()]
    return "\n" * (before.index(first) if first in before else 0) + found, variables


def _list_texts(body: Any) -> Iterator[str]:
    """Yield the texts in a YAML body that may be scripts."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, list) and body and all(isinstance(item, str) for item in body):
        yield shlex.join(body) if any(map(_PYTHON.fullmatch, body)) else "\n".join(body)
    elif isinstance(body, list | Mapping):
        for item in body.values() if isinstance(body, Mapping) else body:
            yield from _list_texts(item)
