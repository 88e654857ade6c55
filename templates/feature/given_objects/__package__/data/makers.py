# vextract:template - edit freely
"""From an environment as a caller has it, a class, an object or a function, to what makes one for each response."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ConfigError

REQUIRED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def is_environment(value: Any) -> bool:
    """Tell whether this is an environment, or a class of them: whether it has `reset` and `step`."""
    return callable(getattr(value, "reset", None)) and callable(getattr(value, "step", None))


def factory_of(environment: Any) -> Callable[[Any], Any]:
    """Return what makes an environment, called as the hook `make_env`, with the config's `data.env`.

    Args:
        environment: a class, or a function that makes one: called without arguments, or with these settings if it
            needs an argument. Or an object: each response has a copy of it (`copy.deepcopy`), as it is now.

    Raises:
        ConfigError: it is none of these, or an object that cannot be copied.
    """
    if is_environment(environment) and not inspect.isclass(environment):
        return _copies(environment)
    if not callable(environment) or (inspect.isclass(environment) and not is_environment(environment)):
        kind = f"class {_name(environment)}" if inspect.isclass(environment) else type(environment).__name__
        missing = [name for name in ("reset", "step") if not callable(getattr(environment, name, None))]
        raise ConfigError(
            f"the environment ({kind}) is without {' and '.join(missing)}",
            "give a class with Gymnasium's reset and step in text, an object of it, or a function that returns one",
        )
    takes_settings = _takes_settings(environment)

    def make(settings: Any) -> Any:
        made = environment(settings) if takes_settings else environment()
        if not is_environment(made):
            raise ConfigError(
                f"{_name(environment)} returned {type(made).__name__}, which is no environment",
                "it has to return an object with Gymnasium's reset and step in text",
            )
        return made

    return make


def _copies(environment: Any) -> Callable[[Any], Any]:
    try:
        original = copy.deepcopy(environment)
    except Exception as error:  # of any class: it depends on what the object holds
        name = type(environment).__name__
        raise ConfigError(
            f"each response needs an environment of its own, and this {name} cannot be copied: {error}",
            f"give its class, or a function that makes one: environment=lambda: {name}(...)",
        ) from error
    return lambda settings: copy.deepcopy(original)


def _takes_settings(maker: Any) -> bool:
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # of a class in C
        return False
    required = [item.name for item in parameters if item.default is item.empty and item.kind in REQUIRED]
    if len(required) > 1:
        raise ConfigError(
            f"{_name(maker)} takes {', '.join(required)}, and one environment after another is to be made of it",
            f"give a function that takes nothing, or the config's data.env: environment=lambda: {_name(maker)}(...)",
        )
    return bool(required) or any(item.name == "settings" for item in parameters)


def _name(maker: Any) -> str:
    return str(getattr(maker, "__name__", type(maker).__name__))
