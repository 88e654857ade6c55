"""Make a case of the defaults and constants of everything that both sides declare, by module."""

import dataclasses
import functools
import inspect
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from .calling import capture_outcome
from .sides import Side
from .table import CaseFamily, Cases

# What computes a value only once there is an object.
_NOT_A_VALUE = (property, functools.cached_property)
_NUMBERS = (bool, int, float, str)


def list_families(declared: Mapping[str, Sequence[str]]) -> list[CaseFamily]:
    """Return a family per module, for names like "Class.method"."""
    return [
        CaseFamily(f"declared.{module}", module, functools.partial(_iterate_cases, module, names))
        for module, names in sorted(declared.items())
    ]


def _iterate_cases(module: str, names: Sequence[str], side: Side) -> Cases:
    yield "", lambda: {name: describe(side.module(module), name) for name in names}


def describe(value: Any, name: str) -> Any:
    """Return the defaults of a function or class, or the value of a constant."""
    for part in name.split("."):
        value = getattr(value, part, None)
    if isinstance(value, _NOT_A_VALUE):
        return None
    if dataclasses.is_dataclass(value) and isinstance(value, type):
        fields = {field.name: _read_default(field) for field in dataclasses.fields(value)}
        # A class without fields of its own shares this set with others, which add theirs.
        return fields, sorted(fields.keys() & getattr(value, "_mutable_fields", ()))
    if callable(value) and not isinstance(value, type):
        return _list_defaults(_unwrap(value, name.rpartition(".")[2]))
    return _unpack(value)


def _unwrap(function: Any, name: str) -> Any:
    """Unwrap a decorated function by searching closures for its name."""
    for cell in getattr(function, "__closure__", None) or ():
        inner = capture_outcome(getattr, cell, "cell_contents")  # which an empty cell has not
        if inspect.isfunction(inner) and inner.__name__ == name:
            return _unwrap(inner, name)
    return function


def _list_defaults(function: Any) -> Any:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(item.name, _unpack(item.default)) for item in parameters if item.default is not inspect.Parameter.empty]


def _read_default(field: Any) -> Any:
    if field.default_factory is dataclasses.MISSING:
        return _unpack(field.default)
    made = capture_outcome(field.default_factory)
    return type(made).__name__ if isinstance(made, Exception) else _unpack(made)


def _unpack(value: Any) -> Any:
    """Convert a value to comparable data; return other values' type names."""
    if isinstance(value, Enum):
        return [value.name, _unpack(value.value)]
    if value is None or isinstance(value, _NUMBERS):
        return value
    if isinstance(value, (list, tuple)):
        return [_unpack(item) for item in value]
    if isinstance(value, Mapping) and value and all(isinstance(item, _NUMBERS) for item in value.values()):
        return {repr(_unpack(key)): item for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _unpack(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return type(value).__name__
