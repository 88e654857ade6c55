# vextract:template
"""Plain data as bytes, and back: what a candidate and its judge say to each other.

JSON, in which everything but None, truth values, texts, small integers, finite floats and lists is an object with one
key, its kind. What is read is of exactly these types, of no subclass, and of bounded size and depth: nothing in it has
a method that its sender wrote.

An object that is not data is sent as a number that the sender knows it by (a reference).
"""

import cmath
import collections
import contextlib
import importlib
import json
import math
import numbers
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

MAX_DEPTH = 100
SMALL = 1 << 53
HEXADECIMAL = re.compile(r"-?[0-9a-f]+")
SPECIAL = ("nan", "inf", "-inf")
PLAIN = (int, float, str, bool, list, tuple, dict, set, frozenset, bytes, complex)
TYPES: dict[str, Any] = {kind.__name__: kind for kind in PLAIN}
# Data that is more than plain: where it is from, what it is made of again, and what it is where nothing more is asked.
KINDS: dict[str, tuple[str, Callable[[Any], list[Any]], Callable[..., Any] | None]] = {
    "Decimal": ("decimal", lambda value: [str(value)], float),
    "Fraction": ("fractions", lambda value: [value.numerator, value.denominator], lambda over, under: over / under),
    "deque": ("collections", lambda value: [list(value), value.maxlen], lambda items, most: items),
    "Counter": ("collections", lambda value: [dict(value)], dict),
    "OrderedDict": ("collections", lambda value: [list(map(list, value.items()))], dict),
    "defaultdict": ("collections", lambda value: [_factory(value), dict(value)], lambda factory, items: items),
    "date": ("datetime", lambda value: [value.year, value.month, value.day], None),
    "time": ("datetime", lambda value: [value.isoformat()], None),
    "datetime": ("datetime", lambda value: [value.isoformat()], None),
    "timedelta": ("datetime", lambda value: [value.days, value.seconds, value.microseconds], None),
}
# Of arrays that hold nothing: how large their shape may be.
SMALLEST = 1 << 16
ARRAY = re.compile(r"[<>|=]?[biufc]\d+|U")
SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"t": tuple, "s": set, "z": frozenset}

Refer = Callable[[Any], Any]


class NotPlain(ValueError):
    """Says that what should be plain data is none, or too large or too deep."""


def encode(value: Any, refer: Refer | None = None) -> bytes:
    """Write a value.

    Args:
        value: plain data; subclasses are written as what they derive from, and arrays as lists.
        refer: gives what stands for an object that is not data, {"r": number} or {"k": number}.

    Raises:
        NotPlain: it is none, and there is no `refer`; or it contains itself.
    """
    try:
        return json.dumps(_plain(value, refer, 0), allow_nan=False, separators=(",", ":")).encode("ascii")
    except (RecursionError, ValueError, TypeError) as error:
        raise NotPlain(f"a {type(value).__name__} is not plain data: {error}") from error


def decode(
    data: bytes,
    resolve: Callable[[str, int], Any] | None = None,
    special: Collection[str] = SPECIAL,
    exact: Collection[str] = (),
) -> Any:
    """Read a value.

    Args:
        data: as `encode` writes it; it may come from anybody.
        resolve: gives the object for a reference, by its kind ("r" or "k") and number.
        special: which of "nan", "inf" and "-inf" may be in it. What is computed with one may pass for anything.
        exact: which of KINDS, and "ndarray", are read as such, and not as the plain data that they hold.

    Raises:
        NotPlain: it is anything else.
    """
    try:
        parsed = json.loads(data, parse_constant=_refuse, parse_int=_small_integer)
        return _Reader(resolve, special, exact).value(parsed, 0)
    except NotPlain:
        raise
    except (ValueError, TypeError, LookupError, RecursionError, ArithmeticError, MemoryError) as error:
        raise NotPlain(f"not plain data: {type(error).__name__}") from error


def _plain(value: Any, refer: Refer | None, depth: int) -> Any:  # noqa: C901 - one line for each type
    if depth > MAX_DEPTH:
        raise NotPlain(f"deeper than {MAX_DEPTH}")
    kind_of = type(value)
    if (known := KINDS.get(kind_of.__name__)) and kind_of.__module__ == known[0]:
        return {"o": [kind_of.__name__, *(_plain(part, refer, depth + 1) for part in known[1](value))]}
    if value is None or kind_of in (bool, str) or (kind_of is int and -SMALL < value < SMALL):
        return value
    if kind_of is list:
        return [_plain(item, refer, depth + 1) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Integral):
        number = int(value)
        return number if -SMALL < number < SMALL else {"i": format(number, "x")}
    if isinstance(value, bytes | bytearray):
        return {"b" if isinstance(value, bytes) else "y": value.hex()}
    if isinstance(value, list | collections.deque):
        return [_plain(item, refer, depth + 1) for item in value]
    if isinstance(value, tuple | set | frozenset):
        kind = "t" if isinstance(value, tuple) else "s" if isinstance(value, set) else "z"
        return {kind: [_plain(item, refer, depth + 1) for item in value]}
    if isinstance(value, Mapping):
        items = value.items()
        return {"d": [[_plain(key, refer, depth + 1), _plain(item, refer, depth + 1)] for key, item in items]}
    if isinstance(value, range):
        return {"g": [_plain(part, refer, depth) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, type) and value in PLAIN:
        return {"n": value.__name__}
    if isinstance(value, numbers.Real) or type(value).__name__ == "Decimal":
        real = float(value)
        return real if math.isfinite(real) else {"f": repr(real)}
    if isinstance(value, complex):
        return {"c": [_plain(value.real, refer, depth), _plain(value.imag, refer, depth)]}
    if kind_of.__name__ == "ndarray" and (letters := ARRAY.match(value.dtype.str.replace("<U", "U"))):
        flat = _plain(value.ravel().tolist(), refer, depth + 1)
        return {"a": [letters.group(), list(value.shape), flat]}
    if hasattr(type(value), "tolist"):
        return _plain(value.tolist(), refer, depth + 1)
    if refer is None:
        raise NotPlain(f"a {type(value).__name__} is not plain data")
    return refer(value)


class _Reader:
    """Makes values of what was parsed; the arguments are those of `decode`."""

    def __init__(self, resolve: Any, special: Collection[str], exact: Collection[str]) -> None:
        self.resolve, self.special, self.exact = resolve, special, exact

    def value(self, parsed: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise NotPlain(f"deeper than {MAX_DEPTH}")
        if type(parsed) is list:
            return [self.value(item, depth + 1) for item in parsed]
        if type(parsed) is float and not math.isfinite(parsed):  # 1e999
            raise NotPlain("no finite number")
        if type(parsed) is not dict:
            return parsed
        ((kind, content),) = parsed.items()

        def read(item: Any) -> Any:
            return self.value(item, depth + 1)

        if kind in SEQUENCES:
            return SEQUENCES[kind]([read(item) for item in content])
        if kind == "d":
            return {read(key): read(item) for key, item in content}
        if kind == "g":
            return range(*(read(part) for part in content))
        if kind == "c":
            parts = [self.value(part, depth) for part in content]
            if [type(part) for part in parts if type(part) not in (int, float)] or len(parts) != 2:
                raise NotPlain("no complex number")
            return complex(*parts)
        if kind == "o":
            return self._object(content[0], [read(part) for part in content[1:]])
        if kind == "a":
            letters, shape, flat = content
            return self._array(letters, shape, read(flat))
        if kind in ("r", "k") and type(content) is int and self.resolve is not None:
            return self.resolve(kind, content)
        return _scalar(kind, content, self.special)

    def _object(self, name: str, parts: list[Any]) -> Any:
        place, _, simpler = KINDS[name]
        if name == "defaultdict" and parts[0] not in (None, *PLAIN):
            raise NotPlain("no default")
        kind = getattr(importlib.import_module(place), name)
        value = kind.fromisoformat(*parts) if name in ("datetime", "time") else kind(*parts)
        if name == "Decimal" and not value.is_finite():
            return _scalar("f", repr(float(value)), self.special)
        return value if simpler is None or name in self.exact else simpler(*([value] if name == "Decimal" else parts))

    def _array(self, letters: str, shape: list[int], flat: list[Any]) -> Any:
        """Return an array, or nested lists; it holds what was sent: "f2" would make infinities, and "nan" no number."""
        kinds = {type(item) for item in flat}
        if not ARRAY.fullmatch(letters) or kinds - ({str} if letters == "U" else {bool, int, float, complex}):
            raise NotPlain("no array")
        if {type(size) for size in shape} - {int} or math.prod(shape) != len(flat) or min(shape, default=0) < 0:
            raise NotPlain("no shape")
        if math.prod(size or 1 for size in shape) > max(len(flat), SMALLEST):
            raise NotPlain("a shape of nothing")
        if "ndarray" in self.exact:
            with contextlib.suppress(ImportError):
                numpy = importlib.import_module("numpy")
                array = numpy.array(flat, dtype=letters)
                if array.dtype.kind in "fc" and numpy.isfinite(array).tolist() != [
                    cmath.isfinite(item) for item in flat
                ]:
                    raise NotPlain("other numbers")
                return array.reshape(shape)
        return _nested(shape, iter(flat))


def _nested(shape: list[int], flat: Iterator[Any]) -> Any:
    return [_nested(shape[1:], flat) for _ in range(shape[0])] if shape else next(flat)


def _factory(value: Any) -> Any:
    return value.default_factory if value.default_factory in PLAIN else None


def _scalar(kind: str, content: Any, special: Collection[str]) -> Any:
    if type(content) is not str:
        raise NotPlain(f"no such kind: {kind}")
    if kind == "i" and HEXADECIMAL.fullmatch(content):
        return int(content, 16)
    if kind == "b":
        return bytes.fromhex(content)
    if kind == "y":
        return bytearray.fromhex(content)
    if kind == "n":
        return TYPES[content]
    if kind == "f" and content in SPECIAL:
        if content not in special:
            raise NotPlain(f"{content} is no answer")
        return float(content)
    raise NotPlain(f"no such kind: {kind}")


def _refuse(constant: str) -> Any:
    raise NotPlain(f"no such number: {constant}")


def _small_integer(digits: str) -> int:
    if len(digits) > 20:
        raise NotPlain("an integer that is too long")
    return int(digits)
