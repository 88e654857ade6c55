"""Kills and errors at any call by which a process changes a disk."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CALLS = ("write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "chmod")


class Killed(BaseException):
    """The process is no more; nothing that it does from here on reaches the disk."""


class Faults:
    """Counts the calls of these names, and fails at one of them: from that one on where it is `for_good`."""

    def __init__(
        self, at: int | None, failure: Callable[[str], None], *, for_good: bool, names: tuple[str, ...] = CALLS
    ) -> None:
        self.at, self.failure, self.for_good, self.names = at, failure, for_good, names
        self.calls: list[str] = []

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            if self.at is not None and (number == self.at or (self.for_good and number > self.at)):
                if name == "write" and number == self.at:
                    # What a kill or a full disk leaves is the first part.
                    handle, data = arguments
                    real(handle, bytes(data)[: len(data) // 2])
                self.failure(name)
            return real(*arguments, **options)

        return call


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    real = {name: getattr(os, name) for name in faults.names}
    for name, function in real.items():
        setattr(os, name, faults.wrap(name, function))
    try:
        yield faults
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def kill(name: str) -> None:
    raise Killed(name)


def error(number: int) -> Callable[[str], None]:
    def fail(name: str) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def killing(at: int | None) -> Faults:
    return Faults(at, kill, for_good=True)
