# vextract:template base/__package__/settings/setting.py - edit freely
"""What is known of each setting beside its default, and which settings change nothing.

shipped.json lists the settings that came with this project, and says which of these nothing reads. Any other setting
counts as read if its name stands in the project's code, hooks included.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from ..absent import SHIPPED
from . import reward_keys

PACKAGE = Path(__file__).resolve().parents[1]
# They list settings by name, which is no use of them.
TABLES = ("path_checks.py", "setting_checks.py", "trl_names.py")
# Sections that are handed on whole to what they configure: a model, an engine, a function.
OPEN = re.compile(r"(^|\.)(\w*kwargs|override_\w*config)(\.|$)")
TYPES: dict[str, type] = {"bool": bool, "dict": dict, "float": float, "int": int, "list": list, "str": str}
RANGES: dict[str, Callable[[float], bool]] = {
    "0 or more": lambda value: value >= 0,
    "at least -1, for all tokens": lambda value: value >= -1,
    "at least 1": lambda value: value >= 1,
    "at least 1, or -1 for all rows": lambda value: value == -1 or value >= 1,
    "from 0 to 1": lambda value: 0 <= value <= 1,
    "from 0 to 2^63 - 1": lambda value: 0 <= value < 2**63,
    "more than 0": lambda value: value > 0,
    "more than 0 and at most 1": lambda value: 0 < value <= 1,
}
ENGINE: str = SHIPPED["engine"]
_ABSENT = object()


class Setting(NamedTuple):
    """Holds what is known of a setting, or of a section.

    Attributes:
        null_or: its types besides null; empty: the type of its default.
        values: all that it may be; empty: anything.
        is_compared: whether verl's algorithms compare it with `values`, where an owner may add one.
        range: one of RANGES.
        hint: what to say to a value out of range.
        only_with: "key=value" of another setting without which this one does not count; "key=!value": any but that.
        still_with: what makes it count all the same.
        needs: the feature that any value but `without` needs, where the project lacks it.
        without: see `needs`.
        unread: the values that it came with, where nothing in the project reads it; None: something does.
        readers: what would read it, such as "engine vllm, feature lora".
    """

    null_or: tuple[type, ...] = ()
    values: tuple[Any, ...] = ()
    is_compared: bool = False
    range: str = ""
    hint: str = ""
    only_with: tuple[str, ...] = ()
    still_with: str = ""
    needs: str = ""
    without: object = None
    unread: tuple[object, ...] | None = None
    readers: str = ""

    def takes(self, value: Any) -> bool:
        """Tell whether `values` allow a value."""
        known = not self.values or value in self.values
        return known or (self.is_compared and _is_compared(str(value)))

    def out_of_range(self, value: Any) -> str | None:
        """Say what is wrong with a number; None: nothing is, or it is no number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if math.isnan(value):
            return f"is {value}, not a number"
        holds = RANGES.get(self.range)
        return f"is {value}, and must be {self.range}" if holds and not holds(value) else None


def _setting(known: dict[str, Any]) -> Setting:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    return Setting(**fields)._replace(null_or=tuple(TYPES[name] for name in known.get("null_or", ())))


PLAIN = Setting()
SCHEMA = {key: _setting(known) for key, known in SHIPPED["schema"].items()}
# All settings that came with this project.
SETTINGS = frozenset(
    f"{section}.{name}".lstrip(".") for section, names in SHIPPED["settings"].items() for name in names.split()
)


def known_of(key: str) -> Setting:
    """Return what is known of a setting."""
    return SCHEMA.get(key, PLAIN)


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
            unread = known_of(name).unread
            if unread is not None and value not in unread:
                yield name, value
        elif not stands_in_code(handed_on_with(name) or name.rpartition(".")[2], files):
            yield name, value


def switched_off(config: DictConfig, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find those of the settings that another one switches off, and say what that one would have to be."""
    for name in names:
        if is_still_on(config, name) or OmegaConf.select(config, name, default=_ABSENT) is None:
            continue  # null says nothing that another setting could take away
        for switch, wanted in _switches_of(name):
            value = OmegaConf.select(config, switch, default=_ABSENT)
            if value is not _ABSENT and not _is(value, wanted):
                yield name, f"{switch}={wanted}"
                break


def is_still_on(config: DictConfig, name: str) -> bool:
    """Tell whether a setting counts whatever else would switch it off."""
    other, _, needed = known_of(name).still_with.partition("=")
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
        for switch in known_of(setting).only_with:
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


def stands_in_code(name: str, more: tuple[str, ...] = ()) -> bool:
    """Tell whether the project's code uses a name: `x.name`, `x["name"]`.

    Args:
        name: of a setting, or one under which something is registered.
        more: paths of the owner's files outside the project.
    """
    used = re.compile(rf"\.{re.escape(name)}\b|[\"']{re.escape(name)}[\"']")
    own = [Path(path) for path in more if Path(path).is_file()]
    paths = [*own, *sorted((PACKAGE / "custom").rglob("*.py")), *sorted(PACKAGE.rglob("*.py"))]
    return any(used.search(_text(path)) for path in paths if path.name not in TABLES)


def _is_compared(value: str) -> bool:
    """Tell whether the algorithms, verl's file of them and the hooks, compare something with a text: `mode == "x"`."""
    compared = re.compile(rf"""(?:==|\bin\b[^=\n]*|\bcase)\s*["']{re.escape(value)}["']""")
    places = (PACKAGE / "vendored" / "algorithms" / "core_algos.py", *(PACKAGE / "custom").rglob("*.py"))
    return any(compared.search(_text(path)) for path in places if path.is_file())


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
