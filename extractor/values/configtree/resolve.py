"""Resolve interpolations: `${a.b}`, `${.c}`, `${oc.select:...}`, `${oc.env:...}`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from extractor.values import limits
from extractor.values.configtree.overrides import BadOverride, parse_override
from extractor.values.errors import UsageError

_INNER = re.compile(r"\$\{([^${}]*)\}")
_DEPTH = 40
# What a value counts for besides its characters.
_NODE = 20


class Unresolved(ValueError):
    """An interpolation that leads nowhere, or not without running something."""


class _Missing:
    pass


_MISSING = _Missing()


def resolve(config: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Resolve all interpolations; broken ones stay as written.

    Args:
        config: Nested.
        environment: What `oc.env` finds.
    """
    resolver = _Resolver(config, environment or {})
    result = resolver.node(config, ())
    assert isinstance(result, dict)
    return result


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value; an empty mapping is a value."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            found.update(flatten(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def select(config: Any, key: str) -> Any:
    """Return the value at a dotted key; raise KeyError if missing."""
    for part in key.split(".") if key else ():
        if isinstance(config, list) and part.isdigit() and int(part) < len(config):
            config = config[int(part)]
        elif isinstance(config, Mapping) and part in config:
            config = config[part]
        else:
            raise KeyError(key)
    return config


class _Resolver:
    def __init__(self, config: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self._spent = 0

    def _spend(self, characters: int, path: tuple[str, ...]) -> None:
        self._spent += characters + _NODE
        if self._spent > limits.MAX_RESOLVED:
            raise UsageError(
                f"{'.'.join(path[:4])}: the config's interpolations stand for more than"
                f" {limits.MAX_RESOLVED:,} characters",
                hint="shorten them: one that is named twice in another doubles it",
            )

    def node(self, value: Any, path: tuple[str, ...], depth: int = 0) -> Any:
        self._spend(0, path)
        if isinstance(value, Mapping):
            return {key: self.node(item, (*path, str(key)), depth) for key, item in value.items()}
        if isinstance(value, list):
            return [self.node(item, (*path, str(index)), depth) for index, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return self._resolve_text(value, path, depth)
        except Unresolved:
            return value

    def _resolve_text(self, text: str, path: tuple[str, ...], depth: int) -> Any:
        if depth > _DEPTH:
            raise Unresolved(text)
        while True:
            self._spend(len(text), path)
            match = _INNER.search(text)
            if match is None:
                return text
            value = self._resolve_one(match[1].strip(), path, depth + 1)
            if match.span() == (0, len(text)):
                return value
            text = f"{text[: match.start()]}{value}{text[match.end() :]}"

    def _resolve_one(self, inner: str, path: tuple[str, ...], depth: int) -> Any:
        name, colon, rest = inner.partition(":")
        if not colon:
            value = self._resolve_at(inner, path, depth)
            if isinstance(value, _Missing):
                raise Unresolved(inner)
            return value
        arguments = [item.strip() for item in rest.split(",", 1)]
        if name == "oc.select":
            value = self._resolve_at(arguments[0], path, depth)
            return _find_default(arguments) if isinstance(value, _Missing) else value
        if name == "oc.env":
            if arguments[0] in self._environment:
                return self._environment[arguments[0]]
            if len(arguments) > 1:
                return _find_default(arguments)
        raise Unresolved(inner)

    def _resolve_at(self, key: str, path: tuple[str, ...], depth: int) -> Any:
        dots = len(key) - len(key.lstrip("."))
        full = (*path[: len(path) - dots], *key[dots:].split(".")) if dots else tuple(key.split("."))
        full = tuple(part for part in full if part)
        current: Any = self._config
        for index, part in enumerate(full):
            if isinstance(current, str) and "${" in current:
                current = self._resolve_text(current, full[:index], depth + 1)
            if not isinstance(current, Mapping) or part not in current:
                return _MISSING
            current = current[part]
        return self.node(current, full, depth + 1)


def _find_default(arguments: list[str]) -> Any:
    if len(arguments) < 2:
        return None
    try:
        return parse_override(f"x={arguments[1]}").value
    except BadOverride:
        return arguments[1]


def list_keys(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield every key, sections too."""
    for key, value in config.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from list_keys(value, f"{prefix}{key}.")
