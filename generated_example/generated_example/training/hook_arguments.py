# vextract:template base/__package__/training/hook_arguments.py
"""Which arguments the owner's classes are made with, also those that they hand on to the classes that they extend."""

import inspect
from collections.abc import Mapping
from typing import Any


def arguments_of(made: Any) -> set[str]:
    """Return the arguments that a constructor, or a function, names, and those of the ones that it hands others to."""
    return _arguments(made)[0]


def taken_by(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some arguments that a class can be made with."""
    names, takes_any = _arguments(cls)
    return {name: value for name, value in given.items() if takes_any or name in names}


def _arguments(made: Any) -> tuple[set[str], bool]:
    """Return the names, and whether any others are taken as well."""
    names: set[str] = set()
    takes_any = False
    for cls in inspect.getmro(made) if inspect.isclass(made) else (made,):
        function = cls.__dict__.get("__init__") if inspect.isclass(cls) else cls
        if function is not None and cls is not object:
            parameters = inspect.signature(function).parameters.values()
            names.update(item.name for item in parameters if item.kind is not item.VAR_KEYWORD)
            takes_any = any(item.kind is item.VAR_KEYWORD for item in parameters)
            if not takes_any:
                break
            names.update(cls.__dict__.get("SETTINGS", ()))
    return names - {"self", "args"}, takes_any
