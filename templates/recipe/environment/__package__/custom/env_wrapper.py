# vextract:hook  yours: written once, never touched by an upgrade
"""The environment of this project, by the name that its package has for it: `env_ADAPTER.py` beside this plays it.

An adapter has Gymnasium's `reset` and `step` in text. For an environment of your own, let `make_env` return an object
with these two; nothing else is taken from here.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..errors import ConfigError
from ..output import install_command

NAME = "ADAPTER:NAME"  # unless `data.env.name` says otherwise


def make_env(settings: Mapping[str, Any]) -> Any:
    """Return the environment of one episode; `settings`: the config's `data.env`.

    Raises:
        ConfigError: the adapter, its package or the environment is not there.
    """
    adapter, _, name = str(settings.get("name") or NAME).partition(":")
    try:
        made = import_module(f".env_{adapter}", __package__)
    except ModuleNotFoundError as error:
        if error.name == f"{__package__}.env_{adapter}":
            hint = f"vextract add env_{adapter}; `vextract versions -v` lists the adapters, env_*"
            raise ConfigError(f"no custom/env_{adapter}.py plays {adapter}:{name}", hint) from error
        package = str(error.name).partition(".")[0]
        raise ConfigError(f"{adapter}:{name} needs the package {package}", install_command(package)) from error
    return made.make_env(name, settings)
