"""Whose a variable is: a function's own (`local`), a command's (`N=16 train`), or a subshell's, that loses it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

_Saved = tuple[Any, "str | None", bool]


class Held(Protocol):
    """What a shell holds: the state of a script."""

    variables: dict[str, Any]
    attributes: dict[str, str]
    exported: set[str]
    functions: dict[str, Any]
    arguments: list[str]
    given: dict[str, str]
    aliases: dict[str, str]
    expands_aliases: bool

    def spend(self, characters: int) -> None:
        """Count what is gone through."""

    def put(self, name: str, value: str) -> None:
        """Set a variable."""


class Scopes:
    """What functions that are running have made their own, innermost last, and what stood there before.

    A function sees those of its callers, and changes them: bash's scope is dynamic.

    Args:
        state: Of the script.
    """

    def __init__(self, state: Held) -> None:
        self._state = state
        self._frames: list[dict[str, _Saved]] = []

    @property
    def inside(self) -> bool:
        """Tell whether a function is running."""
        return bool(self._frames)

    def local(self, name: str) -> None:
        """Make a variable one of the running function's own, and unset, as far as the user has not set it."""
        state = self._state
        if name in self._frames[-1]:
            return
        self._frames[-1][name] = self._saved(name)
        state.attributes.pop(name, None)
        if name not in state.given:
            state.variables[name] = []

    @contextlib.contextmanager
    def function(self) -> Iterator[None]:
        """Run a function: what it makes its own is gone behind it."""
        self._frames.append({})
        try:
            yield
        finally:
            self._restore(self._frames.pop())

    @contextlib.contextmanager
    def with_variables(self, before: Mapping[str, str]) -> Iterator[None]:
        """Run a command that has variables before it: they are its environment, and are gone behind it."""
        kept = {name: self._saved(name) for name in before}
        for name, value in before.items():
            self._state.put(name, value)
            self._state.exported.add(name)
        try:
            yield
        finally:
            self._restore(kept)

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Run a subshell: it sees everything, and changes nothing."""
        state = self._state
        state.spend(20 * (len(state.variables) + len(state.exported)))
        kept = state.variables, state.attributes, state.exported, state.functions, state.arguments, self._frames
        aliases, expands = state.aliases, state.expands_aliases
        state.variables, state.attributes = dict(state.variables), dict(state.attributes)
        state.exported, state.functions = set(state.exported), dict(state.functions)
        state.arguments, state.aliases = list(state.arguments), dict(aliases)
        self._frames = [dict(frame) for frame in self._frames]
        try:
            yield
        finally:
            state.variables, state.attributes, state.exported, state.functions, state.arguments, self._frames = kept
            state.aliases, state.expands_aliases = aliases, expands

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Read another script, which a shell of its own runs."""
        kept, self._frames = self._frames, []
        try:
            yield
        finally:
            self._frames = kept

    def _saved(self, name: str) -> _Saved:
        state = self._state
        return state.variables.get(name), state.attributes.get(name), name in state.exported

    def _restore(self, saved: Mapping[str, _Saved]) -> None:
        state = self._state
        for name, (value, attributes, exported) in saved.items():
            if value is None:
                state.variables.pop(name, None)
            else:
                state.variables[name] = value
            if attributes is None:
                state.attributes.pop(name, None)
            else:
                state.attributes[name] = attributes
            (state.exported.add if exported else state.exported.discard)(name)
