# vextract:template base/__package__/settings/setting.py - edit freely
"""What is known of a setting beside its default: types, values, range, and when it counts."""

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).resolve().parents[1]
# They list settings by name, which is no use of them.
TABLES = ("absent.py", "path_checks.py", "setting_checks.py", "shipped_settings.py", "trl_names.py")
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


PLAIN = Setting()


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
