"""Parse command-line overrides with Hydra's own parser."""

from __future__ import annotations

import copy
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from extractor.values import limits

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override as HydraOverride

# What stands without quotes: a word that Hydra reads as text wherever it stands.
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*\Z", re.ASCII)
_NO_TEXT = ("null", "true", "false", "inf", "nan")
# Hydra's grammar has no quotes for the key of a mapping: these stand behind a backslash in it.
_SPECIAL = re.compile(r"[\\()\[\]{}:=, \t]")
_SHOWN = 500


class BadOverride(ValueError):
    """Refuses an override that Hydra refuses or cannot express."""


@dataclass(frozen=True)
class Override:
    """One override.

    Attributes:
        mark: "", "+", "++" or "~".
        key: Dotted, or a group, perhaps with `@package`.
        value: None for `~key` alone and for null.
        text: As it was written.
    """

    mark: str
    key: str
    value: object
    text: str


def parse_override(text: str) -> Override:
    """Read one override.

    Raises:
        BadOverride: Hydra refuses it, or it is a sweep over several values.
    """
    _check_size(text)
    found = _parse_override(text)
    if found.is_sweep_override():
        raise BadOverride(f"{text[:_SHOWN]!r} is a sweep over several values (quote a comma: key='a,b')")
    key = found.key_or_group if found.package is None else f"{found.key_or_group}@{found.package}"
    return Override(_mark(found), key, copy.deepcopy(found.value()), text)


def _check_size(text: str) -> None:
    """Refuse text that Hydra's parser would take too long for."""
    shown, key = f"{text[:80]!r}...", text.partition("=")[0]
    if len(text) > limits.MAX_OVERRIDE:
        raise BadOverride(f"{shown} has more than {limits.MAX_OVERRIDE:,} characters")
    if key.count(".") > limits.MAX_DATA_DEPTH:
        raise BadOverride(f"{shown}: a key of more than {limits.MAX_DATA_DEPTH} parts")
    depth = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}" and depth > 0)
        if depth > limits.MAX_DATA_DEPTH:
            raise BadOverride(f"{shown}: more than {limits.MAX_DATA_DEPTH} brackets in each other")


@lru_cache(maxsize=4096)
def _parse_override(text: str) -> HydraOverride:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        found = OverridesParser.create().parse_override(text)
    except (HydraException, RecursionError, ValueError) as error:
        raise BadOverride(f"{text[:_SHOWN]!r} is no override for Hydra: {_read_reason(error)}") from None
    if not found.key_or_group:
        raise BadOverride(f"{text[:_SHOWN]!r} is no key=value")
    return found


def _read_reason(error: Exception) -> str:
    """Return what Hydra says, without the override that it repeats."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    lines = str(error).splitlines()
    said = lines[1] if len(lines) > 1 and lines[0].startswith("Error parsing override") else lines[0]
    return f"{said[:_SHOWN]} (quote the value: key='...')"


def _mark(found: HydraOverride) -> str:
    if found.is_force_add():
        return "++"
    if found.is_add():
        return "+"
    return "~" if found.is_delete() else ""


def write_override(key: str, value: object, mark: str = "") -> str:
    """Return an override for Hydra, not yet quoted for a shell.

    Raises:
        BadOverride: Hydra's grammar has no words for the value.
    """
    return f"{mark}{key}={_write(value)}"


def _write(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_write, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_write_key(key)}:{_write(item)}" for key, item in value.items()) + "}"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value).lower()
    if isinstance(value, str):
        return value if _is_plain(value) else _quote_text(value)
    return str(value)


def _is_plain(text: str) -> bool:
    return _PLAIN.match(text) is not None and text.lower() not in _NO_TEXT


def _quote_text(text: str) -> str:
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(text, Quote.single).with_quotes()


def _write_key(key: object) -> str:
    """Write a mapping key in Hydra's grammar, with backslash escapes."""
    text = _SPECIAL.sub(r"\\\g<0>", key) if isinstance(key, str) else _write(key)
    if isinstance(key, str) and not _is_plain(key) and _list_keys(f"{{{text}: 0}}") != [key]:
        raise BadOverride(f"{key!r}: Hydra's grammar cannot express this key of a mapping")
    return text


def _list_keys(text: str) -> list[object]:
    try:
        value = parse_override(f"x={text}").value
    except BadOverride:
        return []
    return list(value) if isinstance(value, dict) else []
