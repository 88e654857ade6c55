"""What a tracker has kept of a run: W&B and SwanLab a file with its config, MLflow a file for each setting.

wandb/run-20250403_025642-wmqmvslz/files/config.yaml          data: {value: {train_batch_size: 64, ...}}
wandb/offline-run-20250403_025642-wmqmvslz/logs/debug.log     config: {'data': {'train_batch_size': 64, ...}}
swanlog/run-20250403_025642-a3b1799d/files/config.yaml        data: {desc: '', sort: 0, value: {...}}
mlruns/0/2f5c.../params/data/train_batch_size                 64
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from extractor.importers.runs.recorded.logs import python_value
from extractor.values import limits, readers
from extractor.values.configtree.compose import read_yaml
from extractor.values.errors import UsageError

_ITS_OWN = "_wandb"
_MODEL = "_name_or_path"
_OF_A_VALUE = frozenset({"desc", "sort", "value"})
_LATEST, _RUNS = "latest-run", ("run-*", "offline-run-*")
_FILES, _CONFIG, _LOG = "files", "config.yaml", "logs/debug.log"
_SAID = "config: {"
_PARAMS = "params"
# The programs of Ray's workers, in which verl's trainer runs: their arguments are Ray's.
_OF_RAY = "default_worker.py"


def unwrapped(body: Any) -> Any:
    """Return a config without what a tracker wraps each of its values in; anything else as it is."""
    if not isinstance(body, Mapping):
        return body
    own = {key: value for key, value in body.items() if key != _ITS_OWN}
    if not own or not all(
        isinstance(item, Mapping) and "value" in item and item.keys() <= _OF_A_VALUE for item in own.values()
    ):
        return body if _ITS_OWN not in body else own
    found = {key: item["value"] for key, item in own.items()}
    if _MODEL in found:  # the config of the model, which transformers' trainers add
        found.setdefault("model_name_or_path", found.pop(_MODEL))
    return found


def is_run(folder: Path) -> bool:
    """Tell whether a directory is what a tracker has made for a run, or for runs."""
    return _has_config(folder) or any(map(_has_config, _runs_in(folder)))


def read(folder: Path) -> Any:
    """Return the config of the run that a directory is of.

    Raises:
        UsageError: it is of several runs, or its config cannot be read.
    """
    run = folder if _has_config(folder) else _only_run_in(folder)
    try:
        config = _config_of(run)
    except (OSError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{run}: its config cannot be read: {why}", hint="correct the file") from None
    if config is None:
        raise UsageError(f"{run}: no config in it", hint="pass the run's script, or its log")
    return config


def _only_run_in(folder: Path) -> Path:
    runs = [run for run in _runs_in(folder) if _has_config(run)]
    latest = (folder / _LATEST).resolve()
    found = runs[0] if len(runs) == 1 else next((run for run in runs if run.resolve() == latest), None)
    if found is None:
        names = ", ".join(run.name for run in runs)
        raise UsageError(f"{folder}: the runs {names}", hint="pass the directory of the run")
    return found


def command_of(body: Any) -> list[str] | None:
    """Return the words of the command in what W&B notes of a run's machine (`wandb-metadata.json`).

    None: it is something else. Empty: it is of a worker of Ray's.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("args"), list):
        return None
    program = body.get("codePath") or body.get("program")
    if not isinstance(program, str):
        return None
    return [] if _OF_RAY in program else ["python", *program.split(), *map(str, body["args"])]


def _runs_in(folder: Path) -> Iterator[Path]:
    for pattern in _RUNS:
        yield from (run for run in sorted(folder.glob(pattern)) if run.is_dir())


def _has_config(run: Path) -> bool:
    if (run / _CONFIG).is_file():
        return run.name == _FILES
    return any((run / name).is_file() for name in (f"{_FILES}/{_CONFIG}", _LOG)) or _has_params(run)


def _has_params(run: Path) -> bool:
    return (run / _PARAMS).is_dir() and (run / "meta.yaml").is_file()


def _config_of(run: Path) -> Any:
    """Return the config in a run's directory; None where its log has none."""
    file = run / _CONFIG if run.name == _FILES else run / _FILES / _CONFIG
    if file.is_file():
        return unwrapped(read_yaml(readers.read_text(file), last_counts=True))
    if _has_params(run):
        return _of_params(run / _PARAMS)
    return _logged(readers.read_start(run / _LOG).decode("utf-8", "replace"))


def _logged(text: str) -> Any:
    """Return the last config that W&B has written into its log."""
    for line in reversed(text.split("\n")):
        config = python_value(line.removeprefix("config: ")) if line.startswith(_SAID) else None
        if config and isinstance(config, dict):
            return unwrapped(config)
    return None


def _of_params(folder: Path) -> dict[str, Any]:
    """Return the settings of MLflow, nested: `data/train_batch_size` is a file, and holds a text."""
    found: dict[str, Any] = {}
    for number, file in enumerate(readers.files_below(folder)):
        if number >= limits.MAX_MEMBERS:
            raise UsageError(f"{folder}: more than {limits.MAX_MEMBERS:,} settings", hint="pass the run's script")
        *above, name = file.relative_to(folder).parts
        section = found
        for part in above:
            section = section.setdefault(part, {})
        text = readers.read_text(file)
        try:
            section[name] = None if text == "None" else read_yaml(text)
        except yaml.YAMLError:
            section[name] = text
    return found
