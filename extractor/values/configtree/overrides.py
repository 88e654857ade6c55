"""Hydra's command-line overrides: `key=value`, `+key=value`, `++key=value`, `~key`, read and written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from extractor.values import limits

_KEY = re.compile(r"(?P<mark>\+\+|\+|~)?(?P<key>[A-Za-z_$][\w$./@:-]*)(?:=(?P<value>.*))?", re.DOTALL)
_INT = re.compile(r"[+-]?(?:0|[1-9]\d*(?:_\d+)*|0\d+)\Z")
_FLOAT = re.compile(r"[+-]?(?:(?:\d[\d_]*\.[\d_]*|\.\d+)(?:e[+-]?\d+)?|\d[\d_]*e[+-]?\d+|inf|nan)\Z", re.IGNORECASE)
# No number of 64 bits has more.
_DIGITS = 20
_SHOWN = 500
_PLAIN = re.compile(r"[A-Za-z0-9_./@%*+|?~-]+\Z")


class BadOverride(ValueError):
    """An override that Hydra would not read either."""


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
        BadOverride: it is none.
    """
    match = _KEY.fullmatch(text.strip())
    if match is None or (match["value"] is None and match["mark"] != "~"):
        raise BadOverride(f"{text[:_SHOWN]!r} is no key=value")
    if match["key"].count(".") > limits.MAX_DATA_DEPTH:
        raise BadOverride(f"{text[:80]!r}...: a key of more than {limits.MAX_DATA_DEPTH} parts")
    value = None if match["value"] is None else _Reader(match["value"].strip(), text).whole()
    return Override(match["mark"] or "", match["key"], value, text)


def write_override(key: str, value: object, mark: str = "") -> str:
    """Return an override as Hydra reads it, not yet quoted for a shell."""
    return f"{mark}{key}={_write(value)}"


def _write(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_write, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_write(item)}" for key, item in value.items()) + "}"
    text = repr(value) if isinstance(value, float) else str(value)
    if isinstance(value, str) and (not _PLAIN.match(text) or not isinstance(_scalar(text), str)):
        # Hydra's quotes: a backslash is one, but before a quote, and at the end
        inner = re.sub(r"(\\*)'", lambda found: found[1] * 2 + r"\'", text)
        inner = re.sub(r"(?<!\\)(\\+)\Z", lambda found: found[1] * 2, inner)
        return f"'{inner}'"
    return text


def _scalar(text: str) -> object:
    lower = text.lower()
    if lower in ("null",):
        return None
    if lower in ("true", "false"):
        return lower == "true"
    if _INT.match(text):
        return int(text.replace("_", ""))
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    return text


class _Reader:
    """A value in Hydra's grammar."""

    def __init__(self, text: str, override: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._override = override

    def whole(self) -> object:
        if not self._text:
            return ""
        if self._text[0] in "[{" or self._text[0] in "\"'":
            value = self._value("")
            self._space()
            if self._at == len(self._text):
                return value
            if self._text[0] in "[{":
                self._fail()
        if self._text[0] in "\"'":
            self._fail()
        self._at = 0
        value = self._value("")
        if self._at != len(self._text):
            self._fail()
        return value

    def _value(self, ends: str) -> object:
        self._space()
        char = self._text[self._at : self._at + 1]
        if char and char in "[{":
            self._depth += 1
            if self._depth > limits.MAX_DATA_DEPTH:
                self._fail()
            value = self._items("]") if char == "[" else dict(self._pairs())
            self._depth -= 1
            return value
        if char and char in "\"'":
            return self._quoted(char)
        return self._bare(ends)

    def _items(self, end: str) -> list[object]:
        self._at += 1
        found: list[object] = []
        while not self._ends_with(end):
            found.append(self._value(",]"))
            self._comma(end)
        return found

    def _pairs(self) -> list[tuple[str, object]]:
        self._at += 1
        found: list[tuple[str, object]] = []
        while not self._ends_with("}"):
            key = self._value(":")
            self._space()
            if self._text[self._at : self._at + 1] != ":":
                self._fail()
            self._at += 1
            found.append((str(key), self._value(",}")))
            self._comma("}")
        return found

    def _ends_with(self, end: str) -> bool:
        self._space()
        if self._at >= len(self._text):
            self._fail()
        if self._text[self._at] == end:
            self._at += 1
            return True
        return False

    def _comma(self, end: str) -> None:
        self._space()
        char = self._text[self._at : self._at + 1]
        if char == ",":
            self._at += 1
        elif char != end:
            self._fail()

    def _quoted(self, quote: str) -> str:
        start = self._at + 1
        end = start
        while end < len(self._text) and self._text[end] != quote:
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            self._fail()
        self._at = end + 1
        inner = re.sub(
            rf"(?<!\\)(\\+){quote}", lambda found: "\\" * (len(found[1]) // 2) + quote, self._text[start:end]
        )
        return re.sub(r"(?<!\\)(\\+)\Z", lambda found: "\\" * (len(found[1]) // 2), inner)

    def _bare(self, ends: str) -> object:
        start, depth = self._at, 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "\\":
                self._at += 2
                continue
            if self._text.startswith("${", self._at):
                depth += 1
                self._at += 1
            elif depth and char == "}":
                depth -= 1
            elif not depth and (char in ends or (char in ",{}[]" and not ends)):
                if not ends:
                    self._fail()
                break
            self._at += 1
        raw = self._text[start : self._at].strip()
        if not raw and ends:
            self._fail()
        if "\\" in raw:
            return re.sub(r"\\(.)", r"\1", raw)
        if len(raw) > _DIGITS and _INT.match(raw):
            self._fail()
        return _scalar(raw)

    def _space(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _fail(self) -> None:
        raise BadOverride(f"{self._override[:_SHOWN]!r}: Hydra cannot read the value (quote it: key='...')")
