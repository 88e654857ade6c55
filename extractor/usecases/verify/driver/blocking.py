"""Block imports of packages, and stand in for those that upstream needs."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any


class _Without:
    """A finder that does not find some top-level packages, as if they were not installed."""

    def __init__(self, finder: Any, names: Iterable[str]) -> None:
        self._finder = finder
        self._names = frozenset(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find nothing for a blocked name, and what the finder finds otherwise."""
        if fullname.partition(".")[0] in self._names or not hasattr(self._finder, "find_spec"):
            return None
        found: importlib.machinery.ModuleSpec | None = self._finder.find_spec(fullname, path, target)
        return found


class BlockedModule:
    """Can be called, subscripted, subclassed and used as a decorator; computes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return self

    def __getattr__(self, name: str) -> BlockedModule:
        if name.startswith("__"):
            raise AttributeError(name)
        return BlockedModule()

    def __getitem__(self, key: Any) -> BlockedModule:
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __or__(self, other: Any) -> type:
        return object

    __ror__ = __or__


class _StubModule(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> BlockedModule:
        if name.startswith("__"):
            raise AttributeError(name)
        return BlockedModule()


class Stubber(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Puts an empty stand-in where a package is missing."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = set(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find every module below the stubbed packages."""
        if fullname.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make the stand-in."""
        return _StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing."""


def block(names: Iterable[str]) -> None:
    """Make top-level packages unimportable, and unknown to `find_spec`, from now on."""
    blocked = frozenset(names)
    sys.meta_path[:] = [_Without(finder, blocked) for finder in sys.meta_path]
