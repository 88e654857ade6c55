"""Compose a project's config as its main.py does."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from extractor.usecases.changes.config_keys import read_config, select_below_config
from extractor.values import readers
from extractor.values.configtree import (
    BadOverride,
    Composed,
    Override,
    compose,
    flatten,
    nearest,
    parse_override,
    resolve,
)
from extractor.values.errors import UsageError

MAIN = "ppo_trainer.yaml"
GROUPS = ("preset", "recipe", "scale", "critic_scale")

# The settings of a run that no release of verl has, in a project and in an export of it.
UNKNOWN = "config/unknown.yaml"

# A part of a key that Hydra reads as one in an override's dotted key.
_PART = re.compile(r"[A-Za-z_][\w-]*|0|[1-9]\d*", re.ASCII)


@dataclass(frozen=True)
class ProjectConfig:
    """A project's composed config."""

    config: Mapping[str, Any]
    flat: Mapping[str, Any]
    toy: bool


def read_files(project: Path) -> dict[str, str]:
    """Return a project's config YAML files, by path below config/.

    Raises:
        UsageError: it has none.
    """
    folder = project / "config"
    if not (folder / MAIN).is_file():
        raise UsageError(f"{folder / MAIN}: no such file", hint="restore it with `vextract sync --removed`")
    return select_below_config(read_config(folder))


def load(files: Mapping[str, str], settings: Sequence[str] = ()) -> ProjectConfig:
    """Compose a project's config.

    Raises:
        UsageError: a file is no YAML, or an override does not fit.
    """
    try:
        given = [parse_override(item) for item in settings]
        for item in given:
            if item.key in GROUPS and f"{item.key}/{item.value}.yaml" not in files:
                word = f"{item.key}={item.value}"
                raise UsageError(f"{word}: no such file", hint=f"`python main.py --cfg {word}` says what brings it")
        overrides = [_split_package(item) for item in given]
        composed = compose(files, MAIN, overrides)
        model = composed.config.get("actor_rollout_ref", {}).get("model", {}).get("path")
        toy = model is None and not any(item.key.startswith("scale@") for item in overrides)
        if toy:
            sizes = [_split_package(parse_override("scale=toy"))]
            if any(path.startswith("critic_scale/") for path in files):
                sizes.append(_split_package(parse_override("critic_scale=toy")))
            composed = compose(files, MAIN, [*sizes, *overrides])
    except BadOverride as error:
        raise UsageError(str(error), hint="settings are key=value, as for main.py") from None
    except yaml.YAMLError as error:
        raise UsageError(f"config/: not valid YAML: {' '.join(str(error).split())}", hint="correct the file") from None
    _check(composed)
    resolved = resolve(composed.config)
    return ProjectConfig(resolved, flatten(resolved), model is None)


def map_overrides(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return Hydra override keys with their values.

    Keys that Hydra cannot take in a dotted key are grouped under their section: `data.env` holds `{"my set": 1}`, and
    `data.env.seed` stands beside it.
    """
    found: dict[str, Any] = {}
    together: dict[Any, Any] = {}
    for key, value in config.items():
        if not (isinstance(key, str) and _PART.fullmatch(key)):
            together[key] = value
        elif isinstance(value, Mapping) and value:
            found.update(map_overrides(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    if together:
        found[prefix.rstrip(".")] = together
    return found


def parse_hook(path: Path) -> ast.Module:
    """Parse a hook's file.

    Raises:
        UsageError: it is no Python.
    """
    try:
        return readers.parse_python(readers.read_bytes(path))
    except SyntaxError as error:
        raise UsageError(f"{path}: not valid Python: {error}", hint="correct it: the export copies it") from None


def _split_package(item: Override) -> Override:
    return replace(item, key=f"{item.key}@_global_") if item.key in GROUPS else item


def _check(composed: Composed) -> None:
    for problem in composed.problems:
        meant = nearest(composed.config, problem.override.key)
        near = f"did you mean {meant}?" if meant else "`python main.py --cfg` prints all keys"
        raise UsageError(f"{problem.override.text}: {problem.message}", hint=near)
