"""The files that the defaults lists of a config tree put together, in the order in which Hydra merges them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from extractor.values import limits
from extractor.values.configtree.places import file_of, package_under

_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.MULTILINE)
_MARKS = re.compile(r"^(?:(?:override|optional)\s+)+")
_CHOICE = re.compile(r"\$\{(\w+)\}")
SELF = "_self_"


class TooManyParts(ValueError):
    """A file whose defaults name it again, or more files than any config has."""


class Defaults:
    """A walk over the defaults lists of a tree.

    Args:
        files: Texts by path relative to the config directory.
        entries: Returns the defaults list of a file.
        choose: Returns which configs stand in place of those that a list names of a group, given the group, the
            package of the file, what follows its `@` and the package that the group has by itself; None leaves them.
        forgiving: Leave out a file that its own defaults name again, in place of an error.
    """

    def __init__(
        self,
        files: Mapping[str, str],
        entries: Callable[[str], list[Any]],
        choose: Callable[[str, str, str, str], list[Any] | None],
        *,
        forgiving: bool = False,
    ) -> None:
        self._files = files
        self._entries = entries
        self._choose = choose
        self._forgiving = forgiving
        self._chosen: dict[str, str] = {}
        self._parts = 0

    def parts(self, path: str, package: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
        """Yield each file, and the package that its own keys go to, where these are merged.

        Raises:
            TooManyParts: the walk would not end.
        """
        self._parts += 1
        if self._parts > limits.MAX_CONFIG_PARTS or path in above:
            raise TooManyParts(f"{path}: its defaults name it again, or more than {limits.MAX_CONFIG_PARTS:,} files")
        above = (*above, path)
        placed = False
        for entry in self._entries(path):
            if entry == SELF:
                placed = True
                yield path, package
                continue
            for child, where in self._children(entry, posixpath.dirname(path), package):
                if child not in above or not self._forgiving:
                    yield from self.parts(child, where, above)
        if not placed:
            yield path, package

    def package_of(self, path: str, package: str, at: str = "", by_itself: str = "") -> str:
        """Return where the keys of a file go: to what `@` says where it is named, to what its header says, or else to
        what its group has by itself.
        """
        header = _PACKAGE.search(self._files.get(path, ""))
        return package_under(package, at or (header[1] if header is not None else by_itself))

    def _children(self, entry: Any, folder: str, package: str) -> Iterator[tuple[str, str]]:
        """Yield the files that an entry of a defaults list names, and the package of each."""
        if isinstance(entry, str):
            name, _, at = entry.partition("@")
            path = file_of(folder, name)
            if path in self._files:
                yield path, self.package_of(path, package, at)
        for raw, value in entry.items() if isinstance(entry, Mapping) else ():
            group, _, at = _MARKS.sub("", str(raw)).partition("@")
            where = file_of(folder, group).removesuffix(".yaml")
            by_itself = group.replace("../", "").strip("/").replace("/", ".")
            chosen = self._choose(where, package, at, by_itself)
            for name in chosen if chosen is not None else value if isinstance(value, list) else [value]:
                if name is None:
                    continue
                resolved = _CHOICE.sub(lambda found: self._chosen.get(found[1], ""), str(name))
                self._chosen.setdefault(where, resolved)
                path = file_of(where, resolved)
                if path in self._files:
                    yield path, self.package_of(path, package, at, by_itself)
