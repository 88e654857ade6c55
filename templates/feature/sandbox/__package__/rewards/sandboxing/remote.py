# vextract:template
"""Stand-ins, in the judge's process, for what a candidate's program defines.

What crosses to the judge is plain data, or a `Remote`: a number by which the candidate knows an object. A Remote
compares by identity only and has no arithmetic: neither `==` nor `in`, `<`, `+` or a truth value is ever answered by
the candidate, which would learn the expected value with the question and could say yes.
"""

import builtins
import collections
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

from . import channel, comparisons, values

# How a test may be told of an exception: by one of Python's own that ends nothing but the statement that raised it.
# StopIteration would end a loop over the test's cases without an error.
RAISABLE: dict[str, type[Exception]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, StopIteration | StopAsyncIteration)
    and name not in ("Exception", "ExceptionGroup", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError")
}


class CandidateGone(BaseException):
    """The candidate has ended, or sent what is not an answer: no further test can pass, whatever it catches."""


class CandidateRaised(Exception):
    """The candidate raised an exception that is not one of Python's own, or SystemExit and its like."""


class Connection:
    """Asks a candidate.

    Args:
        requests, answers: descriptors.
        limit: of an answer, in bytes.
        special: which of "nan", "inf" and "-inf" may be in an answer.
        exact: which kinds of data are more than plain ones here, see `values.decode`.

    Attributes:
        empty: the answers that hold nothing, by identity.
    """

    def __init__(
        self, requests: int, answers: int, limit: int, special: Collection[str], exact: Collection[str] = ()
    ) -> None:
        self._requests, self._answers, self._limit = requests, answers, limit
        self._special, self._exact = special, exact
        self._callbacks: list[Any] = []
        self.empty: dict[int, Any] = {}
        self._number = 0
        self._lost = ""
        self.exceptions: dict[str, type[Exception]] = {}

    @property
    def is_lost(self) -> bool:
        """Tell whether the candidate is gone."""
        return bool(self._lost)

    def begin(self) -> None:
        """Wait until the program has been imported; raises CandidateGone."""
        self._receive()

    def get(self, name: str) -> Any:
        """Return what the program defines under a name: data, a Remote, or an exception class of the same name."""
        found = self.ask("get", name=name)
        bases = self.ask("bases", target=found) if type(found) is Remote else None
        if type(bases) is not list:
            return found
        base = next((RAISABLE[part] for part in bases if type(part) is str and part in RAISABLE), Exception)
        return self.exceptions.setdefault(name, type(name, (base,), {}))

    def ask(self, what: str, **fields: Any) -> Any:
        """Have the candidate do something, and return the value.

        Raises:
            CandidateGone: there is no answer, or none that can be read.
            Exception: what it raised, as one of Python's own.
        """
        if self._lost:
            raise CandidateGone(self._lost)
        self._number += 1
        self._send({"do": what, "number": self._number, **fields})
        while True:
            answer = self._receive()
            if "callback" not in answer:
                break
            self._call_back(answer)
        if answer.get("number") != self._number:
            self._lose("an answer to no question")
        if "raised" in answer:
            self._raise(answer)
        if "arguments" in answer and answer.get("value") is None:
            _change_in_place(fields.get("arguments", ()), answer["arguments"])
        value = answer.get("value")
        if comparisons.holds_nothing(value):
            self.empty[id(value)] = value
        return value

    def _send(self, message: dict[str, Any]) -> None:
        data = values.encode(message, self._refer)
        try:
            channel.send(self._requests, data)
        except channel.ChannelClosed as error:
            self._lose(str(error))

    def _receive(self) -> dict[str, Any]:
        try:
            data = channel.receive(self._answers, self._limit)
            answer = values.decode(data, self._resolve, self._special, self._exact)
        except (channel.ChannelClosed, values.NotPlain) as error:
            self._lose(str(error))
        if type(answer) is not dict:
            self._lose("no answer")
        return answer

    def _lose(self, why: str) -> NoReturn:
        self._lost = why
        raise CandidateGone(why)

    def _raise(self, answer: dict[str, Any]) -> NoReturn:
        names, text = answer["raised"], str(answer.get("text"))
        for name in names if type(names) is list else ():
            if type(name) is str and name in self.exceptions:
                raise self.exceptions[name](text)
            if type(name) is str and name in RAISABLE:
                raise RAISABLE[name](text)
        raise CandidateRaised(f"{names}: {text}")

    def _call_back(self, message: dict[str, Any]) -> None:
        try:
            number, arguments, keywords = (message[name] for name in ("callback", "arguments", "keywords"))
            reply = {"returned": self._callbacks[number](*arguments, **keywords)}
            values.encode(reply, self._refer)
        except CandidateGone:
            raise
        except Exception as error:
            name = type(error).__name__
            reply = {"raised": name if name in vars(builtins) else "RuntimeError", "text": str(error)}
        self._send(reply)

    def _refer(self, value: Any) -> dict[str, int]:
        if isinstance(value, Remote):
            return {"r": object.__getattribute__(value, "_number")}
        if callable(value) and not isinstance(value, type):
            self._callbacks.append(value)
            return {"k": len(self._callbacks) - 1}
        raise values.NotPlain(f"a {type(value).__name__} of the test cannot be passed to the program")

    def _resolve(self, kind: str, number: int) -> Any:
        if kind != "r":
            raise values.NotPlain("a reference to nothing")
        return Remote(self, number)


class Remote:
    """An object of the candidate: its functions, classes, and their instances."""

    __slots__ = ("_connection", "_number")
    __hash__ = object.__hash__

    def __init__(self, connection: Connection, number: int) -> None:
        object.__setattr__(self, "_connection", connection)
        object.__setattr__(self, "_number", number)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return _ask(self, "call", arguments=arguments, keywords=keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the test's own libraries look for; it is not in a program to say
            raise AttributeError(name)
        return _ask(self, "attribute", name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "set", name=name, value=value)

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "item", key=key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "set_item", key=key, value=value)

    def __iter__(self) -> Iterator[Any]:
        items = _ask(self, "iterate")
        while True:
            item = _ask(items, "next") if type(items) is Remote else ()
            if type(item) is not tuple or len(item) != 1:
                return
            yield item[0]

    def __contains__(self, value: Any) -> bool:
        return any(item is value or item == value for item in self)

    def __next__(self) -> Any:
        item = _ask(_ask(self, "iterate"), "next")
        if type(item) is not tuple or len(item) != 1:
            raise CandidateRaised("StopIteration")
        return item[0]

    def __len__(self) -> int:
        return int(_ask(self, "length"))

    def __str__(self) -> str:
        return str(_ask(self, "text"))

    def __repr__(self) -> str:
        return str(_ask(self, "repr"))

    def __instancecheck__(self, instance: Any) -> bool:
        """Tell whether an object of the program is of a class of its own. It could have returned one of any class."""
        return type(instance) is Remote and _ask(self, "is_of", instance=instance) is True

    def __bool__(self) -> bool:
        raise TypeError("an object of the program has no truth value in a test: only plain data has")


def _ask(remote: Remote, what: str, **fields: Any) -> Any:
    connection: Connection = object.__getattribute__(remote, "_connection")
    return connection.ask(what, target=remote, **fields)


def _change_in_place(arguments: Any, changed: Any) -> None:
    """Give mutable arguments of a call that returned nothing the contents that the program has given them."""
    if type(changed) is not list or len(changed) != len(arguments):
        return
    for old, new in zip(arguments, changed, strict=True):
        if type(old) is not type(new) or old is new:
            continue
        if type(old) is list and len(old) == len(new):
            _change_in_place(old, new)
            kept = [type(a) is type(b) and isinstance(a, list | dict | set) for a, b in zip(old, new, strict=True)]
            old[:] = [a if same else b for a, b, same in zip(old, new, kept, strict=True)]
        elif isinstance(old, list | bytearray):
            old[:] = new
        elif isinstance(old, collections.deque):
            old.clear()
            old.extend(new)
        elif isinstance(old, dict | set):
            old.clear()
            old.update(new)
