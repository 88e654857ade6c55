# vextract:template
"""Runs a program, and answers calls of what it defines. Everything here is in the reach of the program itself."""

import builtins
import collections
import os
import sys
import traceback
from typing import Any, NoReturn

from . import channel, values

OUT_OF_MEMORY = 101
FILE = "solution.py"
MUTABLE = (list, dict, set, bytearray, collections.deque)


def run_program(source: str) -> int:
    """Run a program as a script.

    Returns:
        Its exit code.
    """
    code, _ = _executed(source, "__main__")
    return code


def serve(source: str, requests: int, answers: int, limit: int) -> int:
    """Import a program, and answer requests until there are no more.

    Args:
        source: of the program.
        requests, answers: descriptors.
        limit: of a message, in bytes.

    Returns:
        The exit code: that of the program if it failed.
    """
    code, namespace = _executed(source, "solution")
    if code != 0:
        return code
    server = _Server(namespace, requests, answers, limit)
    channel.send(answers, values.encode({"ready": True}))
    try:
        while True:
            server.answer(server.receive())
    except channel.ChannelClosed:
        return 0


class _Server:
    """Knows the objects that the judge has references to."""

    def __init__(self, namespace: dict[str, Any], requests: int, answers: int, limit: int) -> None:
        self.namespace = namespace
        self.requests, self.answers, self.limit = requests, answers, limit
        self.objects: list[Any] = []

    def receive(self) -> Any:
        return values.decode(
            channel.receive(self.requests, self.limit), self._resolve, exact=(*values.KINDS, "ndarray")
        )

    def answer(self, request: dict[str, Any]) -> None:
        number = request.pop("number")
        try:
            arguments = request.get("arguments", ())
            result = getattr(self, "do_" + request.pop("do"))(**request)
            reply = {"number": number, "value": result}
            if result is None and any(isinstance(a, MUTABLE) for a in arguments):
                reply["arguments"] = list(arguments)  # changed in place
            data = values.encode(reply, self._refer)
        except BaseException as error:
            names = [kind.__name__ for kind in type(error).__mro__]
            data = values.encode({"number": number, "raised": names, "text": _text(error)})
        channel.send(self.answers, data)

    def do_get(self, name: str) -> Any:
        if name not in self.namespace:
            raise NameError(f"name {name!r} is not defined")
        return self.namespace[name]

    def do_bases(self, target: Any) -> list[str] | None:
        """Return the names of an exception class and of those it derives from."""
        is_exception = isinstance(target, type) and issubclass(target, BaseException)
        return [kind.__name__ for kind in target.__mro__] if is_exception else None

    def do_call(self, target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return target(*arguments, **keywords)

    def do_attribute(self, target: Any, name: str) -> Any:
        return getattr(target, name)

    def do_set(self, target: Any, name: str, value: Any) -> None:
        setattr(target, name, value)

    def do_item(self, target: Any, key: Any) -> Any:
        return target[key]

    def do_set_item(self, target: Any, key: Any, value: Any) -> None:
        target[key] = value

    def do_iterate(self, target: Any) -> Any:
        return _Items(iter(target))

    def do_next(self, target: Any) -> Any:
        for item in target.items:
            return (item,)
        return ()

    def do_length(self, target: Any) -> int:
        return len(target)

    def do_is_of(self, target: Any, instance: Any) -> bool:
        return isinstance(instance, target)

    def do_text(self, target: Any) -> str:
        return str(target)

    def do_repr(self, target: Any) -> str:
        return repr(target)

    def _refer(self, value: Any) -> dict[str, int]:
        self.objects.append(value)
        return {"r": len(self.objects) - 1}

    def _resolve(self, kind: str, number: int) -> Any:
        if kind == "r":
            return self.objects[number]

        def callback(*arguments: Any, **keywords: Any) -> Any:
            """Call a function that the test has passed, where the test is."""
            call = {"callback": number, "arguments": arguments, "keywords": keywords}
            channel.send(self.answers, values.encode(call, self._refer))
            while True:
                message = self.receive()
                if "returned" in message:
                    return message["returned"]
                if "raised" in message:
                    raise getattr(builtins, message["raised"], RuntimeError)(message["text"])
                self.answer(message)

        return callback


class _Items:
    """An iterator, as an object that the judge asks for one item at a time."""

    def __init__(self, items: Any) -> None:
        self.items = items


def _executed(source: str, name: str) -> tuple[int, dict[str, Any]]:
    """Run source text; its exit code and namespace."""
    sys.argv = [FILE]
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)
    module = type(sys)(name)
    namespace = vars(module)
    namespace["__file__"] = FILE
    sys.modules[name] = module
    try:
        exec(compile(source, FILE, "exec"), namespace)
    except SystemExit as error:
        if isinstance(error.code, int) or error.code is None:
            return int(error.code or 0) if name == "__main__" else 1, namespace
        print(error.code, file=sys.stderr)
        return 1, namespace
    except MemoryError:
        return OUT_OF_MEMORY, namespace
    except BaseException:
        traceback.print_exc()
        return 1, namespace
    return 0, namespace


def _text(error: BaseException) -> str:
    try:
        return str(error)[:1000]
    except BaseException:
        return ""


def end(code: int) -> NoReturn:
    """Write what is buffered, and end this process without running anything that the program has left."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        code = code or 1
    os._exit(code if 0 <= code < 256 else 1)
