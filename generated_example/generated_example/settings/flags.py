# vextract:template base/__package__/settings/flags.py - edit freely
"""The command line of main.py: settings, and the flags that say which files a config is made of."""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ..errors import ConfigError
from ..output import main_command
from .setting import choose

MAIN = "ppo_trainer"
GROUPS = ("preset", "recipe", "scale", "critic_scale")


class ConfigFiles(NamedTuple):
    """Says where the files of a config are.

    Attributes:
        directory: the project's config directory.
        name: the file that the config starts from, without `.yaml`.
        own: the directory of that file, which is looked in first; None: the project's.
        values: a YAML file of settings that go over those of that file.
    """

    directory: Path
    name: str = MAIN
    own: Path | None = None
    values: Path | None = None

    @property
    def directories(self) -> list[Path]:
        """Return all of them, in the order in which they are looked in."""
        return [directory.resolve() for directory in (self.own, self.directory) if directory is not None]

    def options(self, group: str = "") -> list[str]:
        """Return what can be chosen in a folder of them: the names of its files."""
        return sorted({file.stem for directory in self.directories for file in (directory / group).glob("*.yaml")})


def config_files(directory: Path, named: str, main: str = MAIN) -> ConfigFiles:
    """Say where a config is, by the name of a file in config/ or the path of any YAML file.

    A file that lists `defaults` is what the config starts from; the settings of any other go over those of `main`.

    Raises:
        ConfigError: there is no such file.
    """
    given = Path(named).expanduser()
    places = [directory / f"{named.removesuffix('.yaml')}.yaml", given, given.with_name(f"{given.name}.yaml")]
    file = next((place.absolute() for place in places if place.is_file()), None)
    if file is None:
        hint = f"{choose(given.stem, ConfigFiles(directory).options())}; or give the path of a YAML file"
        raise ConfigError(f"{named}: no such file", hint)
    if not re.search(r"^defaults:", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
        return ConfigFiles(directory, main.removesuffix(".yaml"), values=file)
    return ConfigFiles(directory, file.stem, None if file.parent.samefile(directory) else file.parent)


def read_values(file: Path) -> dict[str, Any]:
    """Read the settings of a YAML file."""
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        found = OmegaConf.to_container(OmegaConf.load(file))
    except (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{file} is not valid YAML: {' '.join(str(error).split())}", "mend it there") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file} holds no settings", "write key: value in it, such as local.seed: 1")
    return {str(key): value for key, value in found.items()}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise the project's own error."""
        raise ConfigError(message, main_command("--help"))


def parse(arguments: Sequence[str], directory: Path) -> argparse.Namespace:
    """Read a command line.

    Args:
        arguments: without the program's name.
        directory: the project's config directory.

    Returns:
        Its `overrides`, settings as they stand there; `files`, where the config is; and `cfg`, whether to print that.

    Raises:
        ConfigError: a flag lacks its value, or names a file that is not there.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--cfg", action="store_true")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("--config")
    parser.add_argument("--config-name", "-cn", default=MAIN)
    parser.add_argument("--config-path", "-cp")
    # Hydra's own says what of the config is meant: --cfg job.
    pairs = zip(["", *arguments], arguments, strict=False)
    words = [word for before, word in pairs if before not in ("-c", "--cfg") or word not in ("job", "all")]
    found, overrides = parser.parse_known_args(words)
    if found.config_path:
        file = Path(found.config_path) / f"{found.config_name.removesuffix('.yaml')}.yaml"
        raise ConfigError("--config-path is no flag here: a file is named whole", main_command("--config", str(file)))
    if found.multirun:
        raise ConfigError("this project was made without --multirun", "vextract add sweep")
    main = found.config_name if found.config else MAIN
    files = config_files(directory, found.config or found.config_name, main)
    return argparse.Namespace(**{**vars(found), "overrides": overrides, "files": files})


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
        elif f"{prefix}{key}" in GROUPS:  # the name of a file
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
