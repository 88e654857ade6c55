# vextract:template base/__package__/settings/setting.py - edit freely
"""What is known of each setting beside its default; which settings change nothing; what a mistyped name meant.

shipped.json lists the settings that came with this project, and says which of these nothing reads. Any other setting
counts as read if its name stands in the project's code, hooks included.
"""

import ast
import difflib
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from ..absent import ABSENT_SETTINGS, SHIPPED
from . import reward_keys

PACKAGE = Path(__file__).resolve().parents[1]
# They list settings by name, which is no use of them.
TABLES = ("setting_checks.py", "trl_names.py")
# Sections that are handed on whole to what they configure: a model, an engine, a function.
PASSED_ON_WHOLE = re.compile(r"(^|\.)(\w*kwargs|override_\w*config)(\.|$)")
TYPES: dict[str, type] = {"bool": bool, "dict": dict, "float": float, "int": int, "list": list, "str": str}
RANGES: dict[str, Callable[[float], bool]] = {
    "": lambda value: not math.isnan(value),
    "0 or more": lambda value: value >= 0,
    "at least -1, for all tokens": lambda value: value >= -1,
    "at least 1": lambda value: value >= 1,
    "at least 1, or -1 for all rows": lambda value: value == -1 or value >= 1,
    "from 0 to 1": lambda value: 0 <= value <= 1,
    "from 0 to 2^63 - 1": lambda value: 0 <= value < 2**63,
    "more than 0": lambda value: value > 0,
    "more than 0 and at most 1": lambda value: 0 < value <= 1,
}
# What settings are called in TRL and in scripts; and were called in earlier releases, where a section stands for all
# that is in it.
ALIASES: dict[str, str] = SHIPPED["aliases"]
FORMER_KEYS: dict[str, str] = SHIPPED["former_keys"]


class Setting(NamedTuple):
    """Holds what is known of a setting, or of a section.

    Attributes:
        null_or: its types besides null; empty: the type of its default.
        values: all that it may be; empty: anything.
        is_compared: whether verl's algorithms compare it with `values`, where an owner may add one.
        range: one of RANGES.
        hint: what to say to a value out of range, or to one that is none of `values`.
        path: what its value is the path of: see `wrong_paths`.
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
    path: str = ""
    only_with: tuple[str, ...] = ()
    still_with: str = ""
    needs: str = ""
    without: object = None
    unread: tuple[object, ...] | None = None
    readers: str = ""

    def takes(self, value: Any) -> bool:
        """Tell whether `values` allow a value."""
        return not self.values or value in self.values or (self.is_compared and stands_in_code(str(value)))

    def has_in_range(self, value: Any) -> bool:
        """Tell whether a number is in `range`, which NaN never is."""
        return RANGES[self.range](value)


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


def flat(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted name and value of all settings, and of the sections that hold them."""
    for key, value in values.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")


def leaves(values: Any) -> Iterator[tuple[str, Any]]:
    """Yield dotted name and value of all settings; an empty section is a value."""
    return ((name, value) for name, value in flat(values) if not (isinstance(value, dict) and value))


def without_effect(config: DictConfig) -> Iterator[tuple[str, Any]]:
    """Find the settings that are not as shipped, and that nothing reads, with their values."""
    files = [OmegaConf.select(config, key) for key in ("data.custom_cls.path", f"{reward_keys.FUNCTION}.path")]
    for name, value in leaves(OmegaConf.to_container(config, resolve=False)):
        if name in SETTINGS:
            if value not in (known_of(name).unread or [value]):
                yield name, value
            continue
        section, _, last = name.rpartition(".")
        if opened := PASSED_ON_WHOLE.search(section):
            last = opened[2]
        elif section in SETTINGS:  # it takes anything, and is handed on as a whole
            last = section.rpartition(".")[2]
        elif name in ABSENT_SETTINGS:  # `enable` alone stands everywhere
            last = ".".join(name.split(".")[-2:])
        if (value or name not in ABSENT_SETTINGS) and not stands_in_code(last, filter(None, files)):
            yield name, value


def switched_off(config: DictConfig, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find those of the settings that another one switches off, and say what that one would have to be."""
    for name in names:
        if is_still_on(config, name) or OmegaConf.select(config, name) is None:
            continue  # null says nothing that another setting could take away
        parts = name.split(".")
        above = [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]
        kept = {name, "critic.enable"}
        switches = [f"{section}.enable=true" for section in above if f"{section}.enable" not in kept]
        for switch in (*switches, *(other for setting in (name, *above) for other in known_of(setting).only_with)):
            key, _, wanted = switch.partition("=")
            value = OmegaConf.select(config, key, default=PLAIN)
            if value is not PLAIN and not _is(value, wanted):
                yield name, switch
                break


def is_still_on(config: DictConfig, name: str) -> bool:
    """Tell whether a setting counts whatever else would switch it off."""
    other, _, needed = known_of(name).still_with.partition("=")
    return bool(needed) and _is(OmegaConf.select(config, other), needed)


def _is(value: Any, wanted: str) -> bool:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text != wanted[1:] if wanted.startswith("!") else text == wanted


def stands_in_code(name: str, more: Iterable[str] = ()) -> bool:
    """Tell whether the project's code uses a name, of a setting or of something registered: `x.name`, `x["name"]`.

    `more` are the owner's files outside the project.
    """
    used = re.compile(rf"\.{re.escape(name)}\b|[\"']{re.escape(name)}[\"']")
    paths = [*map(Path, more), *sorted((PACKAGE / "custom").rglob("*.py")), *sorted(PACKAGE.rglob("*.py"))]
    return any(used.search(_text(path)) for path in paths if path.name not in TABLES)


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def meant_setting(key: str, known: Iterable[str], sections: Iterable[str]) -> str | None:
    """Find the setting that an unknown key most likely meant: by what it is called elsewhere, then by its letters.

    `sections` hold settings; one is named only where no setting is near.
    """
    settings = set(known)
    section, _, last = key.rpartition(".")
    alias = ALIASES.get(last, "")
    if not section or not any(name.endswith(f".{last}") for name in settings):
        for name in (f"{section}.{alias.rpartition('.')[2]}", alias):
            if name in settings:
                return name
    return nearest(key, settings) or nearest(key, sections)


def present_name(key: str, known: Container[str]) -> str | None:
    """Return the present name of a setting with a former one; None where it had no other, or that is unknown too."""
    parts = key.split(".")
    for end in range(len(parts), 0, -1):
        if (new := FORMER_KEYS.get(".".join(parts[:end]))) is not None:
            return ".".join([new, *parts[end:]]) if new in known else None
    return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that a mistyped one most likely meant: whole names first, then their last parts."""
    names, last = sorted(known), name.rpartition(".")[2]
    ends: dict[str, list[str]] = {}
    for candidate in names:
        ends.setdefault(candidate.rpartition(".")[2], []).append(candidate)
    close = _closest(name, names, 0.75) or _closest(name, ends.get(last, ()), 0.0)
    return next(iter(close or [ends[end][0] for end in _closest(last, ends, 0.7)]), None)


def _closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """List the nearest names, in any case; first those of the same letters (gpro is grpo, not gspo), or words."""
    name, lower = name.lower(), {other.lower(): other for other in sorted(known)}
    words = re.split(r"\W|_", name)
    close = difflib.get_close_matches(name, lower, n=4, cutoff=cutoff)
    close.sort(key=lambda other: (sorted(other) != sorted(name), not all(word in other for word in words)))
    return [lower[other] for other in close]


def choose(name: str, options: Iterable[str], absent: Iterable[str] = ()) -> str:
    """Word a hint on what to choose instead of an unknown name: first the nearest one, which may be absent."""
    names = sorted(options)
    close = _closest(name, [*names, *absent])
    meant = f"did you mean {close[0]}? There are" if close else "choose one of"
    return f"{meant}: {', '.join(names)}"


def functions_in(path: str | Path) -> list[str]:
    """List the public functions that a Python file defines; none where it cannot be read."""
    try:
        tree = ast.parse(Path(path).expanduser().read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [node.name for node in functions if not node.name.startswith("_")]
