"""Read TOML tables with typed access; errors name file and key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import TypeVar, get_type_hints

from extractor.values import readers
from extractor.values.errors import UsageError

T = TypeVar("T")


def read_toml(text: str, file: str) -> dict[str, object]:
    """Parse a TOML file.

    Raises:
        UsageError: it is not TOML.
    """
    try:
        data: dict[str, object] = readers.parse_toml(text)
    except readers.TOMLDecodeError as error:
        raise UsageError(
            f"{file}: not valid TOML: {error}",
            hint="correct the file at the place named; if it is vextract's own, reinstall vextract",
        ) from None
    return data


class Table:
    """Typed access to a table; errors name file and key."""

    def __init__(self, data: Mapping[str, object], file: str, path: str = "") -> None:
        self.data = data
        self.file = file
        self.path = path

    def error(self, name: str, problem: str, *, hint: str) -> UsageError:
        """Return the error of a key; with "" that of the table."""
        return UsageError(f"{self.file}: key `{self.key(name)}`: {problem}", hint=hint)

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    def key(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        return name in self.data

    def keys_are(self, known: str) -> None:
        """Refuse keys outside `known` (names separated by spaces)."""
        from extractor.values.nearest import find_nearest

        names = known.split()
        for name in self.data:
            if name not in names:
                near = find_nearest(name, names)
                hint = f"did you mean `{near[0]}`?" if near else "known keys here: " + ", ".join(names)
                raise self.error(name, "unknown key", hint=hint)

    def read(
        self,
        cls: Callable[..., T],
        readers: Mapping[str, Callable[[Table, str], object]] = MappingProxyType({}),
        keys: Mapping[str, str] = MappingProxyType({}),
        **given: object,
    ) -> T:
        """Return the table as a dataclass; refuse other keys.

        Args:
            cls: The dataclass. A field that has a default may be left out.
            readers: How to read the fields that are more than strings, integers and collections of strings.
            keys: The keys of fields that are called otherwise here.
            given: Fields that are no keys.
        """
        named = {item: keys.get(item.name, item.name) for item in fields(cls) if item.name not in given}  # type: ignore[arg-type]
        self.keys_are(" ".join(named.values()))
        types = get_type_hints(cls)
        for item, key in named.items():
            if self.has(key) or (item.default is MISSING and item.default_factory is MISSING):
                given[item.name] = readers.get(item.name, _OF_TYPE.get(types[item.name], Table.string))(self, key)
        return cls(**given)

    def get(self, name: str, kind: type, wanted: str) -> object:
        if name not in self.data:
            raise self.error(name, "is missing", hint=f"add it: {wanted}")
        value = self.data[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(name, f"is {value!r}", hint=f"it must be {wanted}")
        return value

    def string(self, name: str) -> str:
        value = self.get(name, str, "a string")
        assert isinstance(value, str)
        if not value.strip():
            raise self.error(name, "is empty", hint="it must be a non-empty string")
        return value

    def optional_string(self, name: str) -> str | None:
        return self.string(name) if self.has(name) else None

    def integer(self, name: str) -> int:
        value = self.get(name, int, "an integer")
        assert isinstance(value, int)
        return value

    def digest(self, name: str) -> str:
        value = self.string(name)
        if not re.fullmatch(r"[0-9a-f]{64}", value):
            raise self.error(name, f"{value!r} is no sha256", hint="64 lower-case hex digits")
        return value

    def strings(self, name: str, optional: bool = False) -> tuple[str, ...]:
        if optional and not self.has(name):
            return ()
        value = self.get(name, list, "an array of strings")
        assert isinstance(value, list)
        for item in value:
            if not isinstance(item, str):
                raise self.error(name, f"holds {item!r}", hint="it must be an array of strings")
        return tuple(value)

    def symbols(self, name: str, optional: bool = False) -> tuple[str, ...]:
        """Require strings of the form module:name."""
        found = self.strings(name, optional)
        for item in found:
            if not re.fullmatch(r"verl(\.[\w*]+)*:[\w*]+", item):
                raise self.error(name, f"{item!r} is no symbol", hint="write verl.package.module:name (or :* for all)")
        return found

    def requirements(self, name: str, optional: bool = False) -> tuple[str, ...]:
        """Require strings that are PEP 508 requirements."""
        from packaging.requirements import InvalidRequirement, Requirement

        found = self.strings(name, optional)
        for item in found:
            try:
                Requirement(item)
            except InvalidRequirement as error:
                raise self.error(
                    name, f"{item!r} is no requirement: {error}", hint="write it as in `torch>=2.6,<3`"
                ) from None
        return found

    def table(self, name: str, optional: bool = False) -> Table:
        if optional and not self.has(name):
            return type(self)({}, self.file, self.key(name))
        value = self.get(name, dict, "a table")
        assert isinstance(value, dict)
        return type(self)(value, self.file, self.key(name))

    def tables(self, name: str, optional: bool = False) -> list[Table]:
        parent = self.table(name, optional)
        return [parent.table(child) for child in parent.data]

    def array(self, name: str) -> list[Table]:
        if not self.has(name):
            return []
        value = self.get(name, list, "an array of tables")
        assert isinstance(value, list)
        for item in value:
            if not isinstance(item, dict):
                raise self.error(name, f"holds {item!r}", hint="it must be an array of tables")
        return [type(self)(item, self.file, f"{self.key(name)}[{index}]") for index, item in enumerate(value)]

    def strings_by_name(self, name: str, optional: bool = False) -> dict[str, str]:
        table = self.table(name, optional)
        return {key: table.string(key) for key in table.data}


_OF_TYPE: Mapping[object, Callable[[Table, str], object]] = {
    int: Table.integer,
    tuple[str, ...]: Table.strings,
    Mapping[str, str]: Table.strings_by_name,
}
