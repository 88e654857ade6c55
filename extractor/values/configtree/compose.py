"""Compose a config tree and overrides as Hydra does; interpolations stay."""

import copy
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml

from extractor.values import limits, readers
from extractor.values.configtree.defaults import Defaults, TooManyParts
from extractor.values.configtree.overrides import Override
from extractor.values.configtree.places import list_choice_keys, name_group_package, put_below
from extractor.values.configtree.resolve import list_keys

_MERGE = "tag:yaml.org,2002:merge"
_SHOWN = 200


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads YAML like OmegaConf: 1e-6 is a number, dates are text."""

    last_counts = False

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen and not self.last_counts:
                    line = key.start_mark.line + 1
                    raise yaml.YAMLError(f"line {line}: the key {key.value!r} stands twice")
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\d[\d_]*)(?:\.[\d_]*)?[eE][-+]?\d+\Z|[-+]?\.\d+(?:[eE][-+]?\d+)?\Z"),
    list("-+0123456789."),
)


class _Lenient(_Loader):
    """Loads the same, but the last of duplicate keys wins."""

    last_counts = True


@dataclass(frozen=True)
class Problem:
    """An override that does not fit the tree.

    Attributes:
        override: The override.
        message: What is wrong with it.
        unknown: Whether the tree has no such key.
    """

    override: Override
    message: str
    unknown: bool = False


@dataclass(frozen=True)
class Composed:
    """A config before its interpolations are resolved.

    Attributes:
        config: Nested.
        problems: What Hydra would have refused; the config is as if it had not been there.
    """

    config: dict[str, Any]
    problems: tuple[Problem, ...]


def read_yaml(text: str, last_counts: bool = False) -> Any:
    """Return one YAML document, as OmegaConf reads it.

    Args:
        text: The document.
        last_counts: Of a key that stands twice the last counts, as in YAML of others.

    Raises:
        yaml.YAMLError: it is none, is beyond the limits, or holds what no config does.
    """
    readers.check_yaml(text)
    try:
        value = yaml.load(text, Loader=_Lenient if last_counts else _Loader)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        # What the constructors of YAML's own types raise: a number with thousands of digits, `!!int x`.
        raise yaml.YAMLError(f"a value that cannot be read ({error})") from None
    _check_plain(value)
    return value


def read_mapping(text: str) -> dict[str, Any]:
    """Return a YAML document that is a mapping, or empty.

    Raises:
        yaml.YAMLError: it is none.
    """
    value = read_yaml(text)
    if value is not None and not isinstance(value, dict):
        raise yaml.YAMLError("no mapping at its top")
    return value or {}


def read_config(text: str) -> tuple[list[Any], Any]:
    """Return a config file's defaults list and its other keys.

    Raises:
        yaml.YAMLError: it is neither.
    """
    body = read_yaml(text)
    if isinstance(body, list):  # which has a place only below a package
        return [], body
    if body is not None and not isinstance(body, dict):
        raise yaml.YAMLError("no mapping at its top")
    body = body or {}
    return body.pop("defaults") if isinstance(body.get("defaults"), list) else [], body


def _check_plain(value: Any) -> None:
    """Refuse values that OmegaConf refuses: dates, sets, bytes, huge numbers."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
            pending += item.keys()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, int) and item.bit_length() > limits.MAX_BITS:
            raise yaml.YAMLError(f"a number of more than {limits.MAX_BITS} bits")
        elif item is not None and not isinstance(item, (str, int, float)):
            raise yaml.YAMLError(f"a value of a type that no config has: {type(item).__name__}")


def compose(files: Mapping[str, str], main: str, overrides: Sequence[Override] = ()) -> Composed:
    """Return the config that a tree makes with overrides.

    Args:
        files: Texts by path relative to the config directory.
        main: The primary file.
        overrides: In order; choices of groups and values.

    Raises:
        yaml.YAMLError: a file is no YAML.
    """
    tree = _Tree(files, overrides)
    config: dict[str, Any] = {}
    for part in tree.parts(main):
        merge(config, part)
    config.pop("hydra", None)
    problems = []
    for item in overrides:
        if item.key.startswith("hydra.") or item.key == "hydra":
            continue
        if tree.is_group(item):
            if item not in tree.used:
                problems.append(Problem(item, f"the config has no choice of {item.key}"))
            continue
        problem = apply(config, item)
        if problem is not None:
            problems.append(problem)
    return Composed(config, tuple(problems))


def merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Merge as OmegaConf does: mappings key by key, everything else replaced."""
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)


def apply(config: dict[str, Any], item: Override) -> Problem | None:
    """Apply one override; return what Hydra would object."""
    parts = item.key.split(".")
    parent: Any = config
    for part in parts[:-1]:
        child = parent.get(part) if isinstance(parent, dict) else None
        if not isinstance(child, dict):
            if item.mark not in ("+", "++") or (child is not None and not _is_open(child)):
                return _explain_unknown(item)
            parent[part] = child = {}
        parent = child
    name = parts[-1]
    known = isinstance(parent, dict) and name in parent
    if item.mark == "~":
        if not known:
            return _explain_unknown(item)
        if item.value is not None and item.value != parent[name]:
            return Problem(item, f"{item.key} is {parent[name]!r}, and only that value could be deleted by name")
        del parent[name]
        return None
    if item.mark == "+" and known and parent[name] is not None and not isinstance(item.value, (dict, list)):
        return Problem(item, f"{item.key} is there already: leave the + out")
    if item.mark == "" and not known:
        return _explain_unknown(item)
    if isinstance(item.value, dict) and isinstance(parent.get(name), dict):
        if item.mark == "":
            foreign = next((key for key in item.value if key not in parent[name]), None)
            if foreign is not None:
                return Problem(item, f"{item.key} has no key {foreign!r}: add it with a +", unknown=True)
        merge(parent[name], item.value)
    else:
        parent[name] = copy.deepcopy(item.value)
    return None


def _is_open(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("${")


def _explain_unknown(item: Override) -> Problem:
    return Problem(item, f"there is no key {item.key[:_SHOWN]}", unknown=True)


def nearest(config: Mapping[str, Any], key: str, without: Collection[str] = ()) -> str | None:
    """Return the key that was probably meant, or None; slow.

    Args:
        config: Nested.
        key: What was said.
        without: Keys that cannot be meant.
    """
    known = sorted(set(list_keys(config)).difference(without))
    near = get_close_matches(key, known, 1, cutoff=0.8) if len(key) <= _SHOWN else []
    return near[0] if near else None


class _Tree:
    def __init__(self, files: Mapping[str, str], overrides: Sequence[Override]) -> None:
        self._files = files
        self._folders = {posixpath.dirname(path) for path in files} - {""}
        self._choices = {item.key: item for item in overrides if self.is_group(item)}
        self._read: dict[str, tuple[list[Any], Any]] = {}
        self._walk = Defaults(files.get, self._list_entries, self._list_chosen)
        self.used: set[Override] = set()

    def is_group(self, item: Override) -> bool:
        group = item.key.partition("@")[0]
        return "@" in item.key or (
            group in self._folders and (isinstance(item.value, str) or (item.mark == "~" and item.value is None))
        )

    def parts(self, main: str) -> Iterator[dict[str, Any]]:
        """Yield what is merged, in order, each below its package."""
        yield from self._put_below(main, "")
        for item in self._choices.values():
            if item.mark in ("+", "++") and item not in self.used:
                group, sign, at = item.key.partition("@")
                path = f"{group}/{str(item.value).removesuffix('.yaml')}.yaml"
                if path in self._files:
                    self.used.add(item)
                    package = self._walk.package_of(path, "", at if sign else None, name_group_package(group))
                    yield from self._put_below(path, package)

    def _put_below(self, path: str, package: str) -> Iterator[dict[str, Any]]:
        try:
            for part, where in self._walk.parts(path, package):
                body = put_below(where, self._read_file(part)[1])
                if not isinstance(body, dict):
                    raise yaml.YAMLError(f"{part}: no mapping at its top")
                yield body
        except TooManyParts as error:
            raise yaml.YAMLError(str(error)) from None

    def _list_entries(self, path: str) -> list[Any]:
        return self._read_file(path)[0]

    def _read_file(self, path: str) -> tuple[list[Any], Any]:
        """Return a file's defaults list and keys, or its value list."""
        if path not in self._read:
            try:
                self._read[path] = read_config(self._files[path])
            except yaml.YAMLError as error:
                raise yaml.YAMLError(f"{path}: {' '.join(str(error).split())}") from None
        return self._read[path]

    def _list_chosen(self, group: str, package: str, at: str | None, by_itself: str) -> list[Any] | None:
        item = self._find_choice(group, package, at, by_itself)
        if item is None:
            return None
        self.used.add(item)
        if item.mark == "~":
            return []
        return item.value if isinstance(item.value, list) else [item.value]

    def _find_choice(self, *named: Any) -> Override | None:
        return next((self._choices[key] for key in list_choice_keys(*named) if key in self._choices), None)
