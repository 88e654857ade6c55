# vextract:template base/__package__/settings/unread.py - edit freely
"""Find settings that would change nothing: those that nothing in this project reads, and those that are switched off.

shipped_settings.py says which of the shipped ones nothing reads. Any other setting counts as read if its name stands in
the project's code, hooks included.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from . import reward_keys
from .setting import PLAIN, stands_in_code
from .shipped_settings import SCHEMA, SETTINGS

# Sections that are handed on whole to what they configure: a model, an engine, a function.
OPEN = re.compile(r"(^|\.)(\w*kwargs|override_\w*config)(\.|$)")
_ABSENT = object()


def handed_on_with(name: str) -> str | None:
    """Name the section that a setting stands in, if that takes anything and is handed on as a whole."""
    section = name.rpartition(".")[0]
    opened = OPEN.search(section)
    if opened is not None:
        return opened[2]
    return section.rpartition(".")[2] if section in SETTINGS else None


def without_effect(config: DictConfig) -> Iterator[tuple[str, Any]]:
    """Find the settings that are not as shipped, and that nothing reads, with their values."""
    files = tuple(
        path
        for key in ("data.custom_cls.path", f"{reward_keys.FUNCTION}.path")
        if isinstance(path := OmegaConf.select(config, key), str)
    )
    for name, value in leaves(OmegaConf.to_container(config, resolve=False)):
        if name in SETTINGS:
            unread = SCHEMA.get(name, PLAIN).unread
            if unread is not None and value not in unread:
                yield name, value
        elif not stands_in_code(handed_on_with(name) or name.rpartition(".")[2], files):
            yield name, value


def switched_off(config: DictConfig, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find those of the settings that another one switches off, and say what that one would have to be."""
    for name in names:
        if is_still_on(config, name):
            continue
        if OmegaConf.select(config, name, default=_ABSENT) is None:
            continue  # null says nothing that another setting could take away
        for switch, wanted in _switches_of(name):
            value = OmegaConf.select(config, switch, default=_ABSENT)
            if value is not _ABSENT and not _is(value, wanted):
                yield name, f"{switch}={wanted}"
                break


def is_still_on(config: DictConfig, name: str) -> bool:
    """Tell whether a setting counts whatever else would switch it off."""
    other, _, needed = SCHEMA.get(name, PLAIN).still_with.partition("=")
    return bool(needed) and _is(OmegaConf.select(config, other), needed)


def _switches_of(name: str) -> Iterator[tuple[str, str]]:
    """List the settings that switch this one on, and the value that each must have."""
    parts = name.split(".")
    above = [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]
    for section in above:
        switch = f"{section}.enable"
        if switch not in (name, "critic.enable"):
            yield switch, "true"
    for setting in (name, *above):
        for switch in SCHEMA.get(setting, PLAIN).only_with:
            key, _, wanted = switch.partition("=")
            yield key, wanted


def _is(value: Any, wanted: str) -> bool:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text != wanted[1:] if wanted.startswith("!") else text == wanted


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted name and value of all settings; an empty section is a value."""
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
