"""List the files that defaults lists put together, in Hydra's order."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from extractor.values import limits
from extractor.values.configtree.places import find_file, find_folder, join_package, name_group_package

_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.MULTILINE)
_MARKS = re.compile(r"^(?:(?:override|optional)\s+)+")
_CHOICE = re.compile(r"\$\{(\w+)\}")
SELF = "_self_"


class TooManyParts(ValueError):
    """Refuses defaults that form a circle or name too many files."""


class Defaults:
    """A walk over the defaults lists of a tree.

    Args:
        text_of: Returns the text of a file, by its path relative to the config directory; None where there is none.
        entries: Returns the defaults list of a file.
        choose: Returns which configs stand in place of those that a list names of a group, given what `keys_of_choice`
            takes; None leaves them.
        forgiving: Leave out a file that its own defaults name again, in place of an error.
    """

    def __init__(
        self,
        text_of: Callable[[str], str | None],
        entries: Callable[[str], list[Any]],
        choose: Callable[[str, str, str | None, str], list[Any] | None],
        *,
        forgiving: bool = False,
    ) -> None:
        self._text_of = text_of
        self._entries = entries
        self._choose = choose
        self._forgiving = forgiving
        self._chosen: dict[str, str] = {}
        self._parts = 0

    def parts(self, path: str, package: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
        """Yield each file with its package, in merge order.

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
            for child, where in self._list_children(entry, path, package):
                if child not in above or not self._forgiving:
                    yield from self.parts(child, where, above)
        if not placed:
            yield path, package

    def package_of(self, path: str, package: str, at: str | None = None, by_itself: str = "") -> str:
        """Return a file's package: from `@`, its header, or its group."""
        if at is None:
            header = _PACKAGE.search(self._text_of(path) or "")
            at = by_itself if header is None else header[1]
        return join_package(package, at.replace("_group_", by_itself))

    def _list_children(self, entry: Any, above: str, package: str) -> Iterator[tuple[str, str]]:
        """Yield files and packages that a defaults entry names."""
        folder = posixpath.dirname(above)
        if isinstance(entry, str):
            name, at = _split_package(entry)
            path = find_file(folder, name)
            if self._text_of(path) is not None:
                yield path, self.package_of(path, package, at, name_group_package(posixpath.dirname(name)))
        for raw, value in entry.items() if isinstance(entry, Mapping) else ():
            group, at = _split_package(_MARKS.sub("", str(raw)))
            where = find_folder(folder, group)
            by_itself = name_group_package(group)
            chosen = self._choose(where, package, at, by_itself)
            for name in chosen if chosen is not None else value if isinstance(value, list) else [value]:
                if name is None:
                    continue
                resolved = _CHOICE.sub(lambda found: self._chosen.get(found[1], ""), str(name))
                self._chosen.setdefault(where, resolved)
                path = find_file(where, resolved)
                if self._text_of(path) is not None:
                    yield path, self.package_of(path, package, at, by_itself)


def _split_package(named: str) -> tuple[str, str | None]:
    """Split a name at `@`; None for a missing package."""
    name, sign, at = named.partition("@")
    return name, at if sign else None
