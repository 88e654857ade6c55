# vextract:template - edit freely
"""The config, from Python."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..output import PROJECT

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG_DIRECTORY = PROJECT / "config"


def load_config(*overrides: str | Mapping[str, Any], config_name: str = "ppo_trainer") -> "DictConfig":
    """Compose the config as the command line does, with the same keys and the same checks.

    Args:
        overrides: settings, as on the command line ("algorithm.adv_estimator=grpo", "preset=rloo", "+new.key=1"); or
            mappings of them ({"trainer.total_epochs": 3}, nested or with dots).
        config_name: a file of config/ to start from, or the path of any YAML file.

    Returns:
        The config. What is in order and does not count is said by a warning.

    Raises:
        ConfigError: a key is unknown, a value cannot be right, or a file that is named is not there.
    """
    from . import loading
    from .flags import as_overrides, config_files
    from .setting_checks import check_paths, config_notes

    words: list[str] = []
    for given in overrides:
        if not isinstance(given, (str, Mapping)):
            raise ConfigError(
                f"settings are given as {given!r:.60}, of type {type(given).__name__}",
                'give texts, "trainer.total_epochs=3", or mappings, {"trainer.total_epochs": 3}',
            )
        words += [given] if isinstance(given, str) else as_overrides(given)
    config = loading.load_config(config_files(CONFIG_DIRECTORY, str(config_name)), words)
    check_paths(config)
    for note in config_notes(config, words):
        warnings.warn(note, stacklevel=2)
    return config
