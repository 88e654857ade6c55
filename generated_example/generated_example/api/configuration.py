# vextract:template base/__package__/api/configuration.py - edit freely
"""The config, from Python."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..errors import ConfigError
from ..output import install_command
from ..settings import loading
from ..settings.flags import MAIN, config_files
from ..settings.path_checks import check_paths

CONFIG_DIRECTORY = Path(__file__).resolve().parents[2] / "config"


def load_config(
    *overrides: str | Mapping[str, Any],
    config_name: str = MAIN,
    config_path: str | Path | None = None,
) -> DictConfig:
    """Compose the config as the command line does, with the same keys and the same checks.

    Args:
        overrides: settings, as on the command line ("algorithm.adv_estimator=grpo", "preset=rloo", "+new.key=1"); or
            mappings of them ({"trainer.total_epochs": 3}, nested or with dots).
        config_name: a file of config/ to start from, or the path of any YAML file.
        config_path: a directory that is looked in before the project's config/.

    Returns:
        The config. What is in order and does not count is said by a warning.

    Raises:
        ConfigError: a key is unknown, a value cannot be right, or a file that is named is not there.
    """
    if not CONFIG_DIRECTORY.is_dir():
        raise ConfigError(
            f"the project's config is not at {CONFIG_DIRECTORY}",
            f"install the project as `make setup` does: {install_command('-e', '.')}",
        )
    words = [word for given in overrides for word in ([given] if isinstance(given, str) else _of_mapping(given))]
    path = None if config_path is None else Path(config_path)
    config = loading.load_config(config_files(CONFIG_DIRECTORY, str(config_name), path), words)
    check_paths(config)
    for note in loading.notes_on(config, words):
        warnings.warn(note, stacklevel=2)
    return config


def _of_mapping(given: Any) -> list[str]:
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"settings are given as {given!r:.60}, of type {type(given).__name__}",
            'give texts, load_config("trainer.total_epochs=3"), or mappings, load_config({"trainer.total_epochs": 3})',
        )
    return as_overrides(given)


def as_overrides(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return settings as they stand on a command line.

    Args:
        settings: values by key, nested or with dots; None is null.
        prefix: goes before each key.
    """
    words: list[str] = []
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            words.extend(as_overrides(value, f"{prefix}{key}."))
        elif f"{prefix}{key}" in loading.GROUPS:  # the name of a file
            words.append(f"{key}={value}")
        else:
            words.append(f"{prefix}{key}={_literal(value)}")
    return words


def _literal(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_literal, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_literal(item)}" for key, item in value.items()) + "}"
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value) if not isinstance(value, float) else repr(value)
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(str(value), Quote.single).with_quotes()
