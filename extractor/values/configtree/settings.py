"""List the settings of config files and where they go."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from extractor.values import readers
from extractor.values.configtree.defaults import Defaults, TooManyParts

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"


@dataclass(frozen=True)
class Setting:
    """One key of a config.

    Attributes:
        key: Dotted, from the root of the whole config.
        value: Its value as YAML in one line; "" for a section.
        section: True for a mapping that is not empty.
        file: The file that sets it, relative to the tree.
        line: Line in it.
    """

    key: str
    value: str
    section: bool
    file: str
    line: int


class Unreadable(ValueError):
    """Refuses a file that is no YAML mapping or list."""


def list_every_setting(files: Mapping[str, str], main: str) -> list[Setting]:
    """Return all settings of a config tree, with full keys.

    Includes all options of each group, and files that no defaults list names. Unreadable files count as empty.
    """
    tree = _SettingTree(files)
    found = dict.fromkeys(tree.settings(main, "") if main in files else ())
    for path in sorted(set(files) - set(tree.seen)):
        found.update(dict.fromkeys(tree.settings(path, tree.package_of(path))))
    return list(found)


def map_packages(files: Mapping[str, str], main: str) -> dict[str, tuple[str, ...]]:
    """Map files to their keys' packages ("" for the root)."""
    tree = _SettingTree(files)
    if main in files:
        for _ in tree.settings(main, ""):
            pass
    return {path: tree.seen.get(path, (tree.package_of(path),)) for path in files}


class _SettingTree:
    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._parsed: dict[str, yaml.MappingNode | yaml.SequenceNode | None] = {}
        self._walk = Defaults(files.get, self._list_entries, self._list_all, forgiving=True)
        # Path of a file -> the packages that its keys have been given.
        self.seen: dict[str, tuple[str, ...]] = {}

    def settings(self, path: str, package: str) -> Iterator[Setting]:
        """Yield settings of a file and its defaults, in merge order."""
        try:
            for part, where in self._walk.parts(path, package):
                self.seen[part] = tuple(dict.fromkeys((*self.seen.get(part, ()), where)))
                node = self._parse_node(part)
                if isinstance(node, yaml.SequenceNode) and where:
                    section, _, name = where.rpartition(".")
                    yield from _flatten([(yaml.ScalarNode(node.tag, name, node.start_mark), node)], section, part)
                own = [(key, value) for key, value in _list_pairs(node) if not _is_defaults(key, value)]
                yield from _flatten(own, where, part)
        except TooManyParts as error:
            raise Unreadable(str(error)) from None

    def package_of(self, path: str) -> str:
        """Return where a file goes that no defaults list names."""
        return self._walk.package_of(path, "")

    def _parse_node(self, path: str) -> yaml.MappingNode | yaml.SequenceNode | None:
        if path not in self._parsed:
            try:
                self._parsed[path] = _find_top(path, self._files[path])
            except Unreadable:
                self._parsed[path] = None
        return self._parsed[path]

    def _list_entries(self, path: str) -> list[Any]:
        lists = [value for key, value in _list_pairs(self._parse_node(path)) if _is_defaults(key, value)]
        return [_simplify_entry(item) for entries in lists for item in entries.value]

    def _list_all(self, group: str, *_: str | None) -> list[str]:
        return sorted(posixpath.basename(path) for path in self._files if posixpath.dirname(path) == group)


def _is_defaults(key: yaml.ScalarNode, value: yaml.Node) -> bool:
    return key.value == "defaults" and isinstance(value, yaml.SequenceNode)


def _simplify_entry(node: yaml.Node) -> Any:
    """Return a defaults entry as a name or {group: names}."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _simplify_entry(value) for key, value in _list_pairs(node)}
    if isinstance(node, yaml.SequenceNode):
        return [_simplify_entry(item) for item in node.value]
    return None if node.tag == _NULL else str(node.value)


def _find_top(path: str, text: str) -> yaml.MappingNode | yaml.SequenceNode | None:
    try:
        readers.check_yaml(text)
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from None
    if node is None or isinstance(node, (yaml.MappingNode, yaml.SequenceNode)):
        return node
    raise Unreadable(f"{path}: no mapping")


def _list_pairs(node: yaml.Node | None) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    return [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _flatten(pairs: list[tuple[yaml.ScalarNode, yaml.Node]], package: str, path: str) -> Iterator[Setting]:
    if package and pairs:
        parts = package.split(".")
        for end in range(1, len(parts) + 1):
            yield Setting(".".join(parts[:end]), "", True, path, 1)
    for key, value in pairs:
        name = f"{package}.{key.value}" if package else str(key.value)
        line = key.start_mark.line + 1
        if isinstance(value, yaml.MappingNode) and value.value:
            yield Setting(name, "", True, path, line)
            yield from _flatten(_list_pairs(value), name, path)
        else:
            yield Setting(name, write_in_one_line(value), False, path, line)


def write_in_one_line(node: yaml.Node) -> str:
    """Return a value in one line, equal for equal YAML values."""
    if isinstance(node, yaml.SequenceNode):
        return f"[{', '.join(map(write_in_one_line, node.value))}]"
    if isinstance(node, yaml.MappingNode):
        return "{" + ", ".join(f"{key.value}: {write_in_one_line(value)}" for key, value in node.value) + "}"
    if node.tag == _NULL:
        return "null"
    return str(node.value).lower() if node.tag == _BOOL else str(node.value)
