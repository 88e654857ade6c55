"""The config of a release of verl, read from its source, and what a key means there."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from extractor.importers.config import reads as code
from extractor.pipeline.source import Source
from extractor.values import readers
from extractor.values.configtree import Composed, Override, compose, flatten, resolve
from extractor.values.configtree.resolve import select

CONFIG = "verl/trainer/config/"
MAIN = "ppo_trainer.yaml"


@dataclass(frozen=True)
class Target:
    """A release as far as configs are concerned.

    Attributes:
        release: "0.6.1".
        files: The YAML files below verl/trainer/config, by path there.
        source: All of it.
    """

    release: str
    files: Mapping[str, str] = field(repr=False)
    source: Source = field(repr=False)

    @classmethod
    def of(cls, source: Source) -> Target:
        """Return the target that a source is."""
        files = {
            path.removeprefix(CONFIG): source.read(path)
            for path in source.files
            if path.startswith(CONFIG) and path.endswith(".yaml")
        }
        return cls(source.release, files, source)

    def compose(self, overrides: Sequence[Override] = (), main: str = MAIN) -> Composed:
        """Return the release's config with overrides."""
        return compose(self.files, main, overrides)

    def has(self, path: str) -> bool:
        """Tell whether the release has a file."""
        return path in self.source.files

    def function(self, path: str, name: str) -> str:
        """Return the text of a function of the release; "" where there is none."""
        if not self.has(path):
            return ""
        text = self.source.read(path)
        match = re.search(rf"^(?:async )?def {name}\(.*?(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
        header = re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE)
        if match is None or header is None:
            return ""
        rest = text[header.end() :]
        end = re.search(r"^(?:def |class |@|async def )", rest, re.MULTILINE)
        return rest[: end.start()] if end is not None else rest

    def reads(self, name: str) -> bool:
        """Tell whether any code of the release reads a setting of this name."""
        return name in _names(self.source)

    def words(self, names: Sequence[str], registers: Sequence[str]) -> frozenset[str]:
        """Return the words that code of the release that trains compares settings of these names with.

        Args:
            names: Of settings, and of variables.
            registers: Decorators whose argument is such a word, and classes and lists whose members are.
        """
        return code.words(self.source, names, registers)

    def says(self, text: str) -> bool:
        """Tell whether a text stands in quotes anywhere in the release's code."""
        quoted = (f'"{text}"'.encode(), f"'{text}'".encode())
        return any(
            word in data
            for path, data in self.source.files.items()
            if path.startswith("verl/") and path.endswith(".py")
            for word in quoted
        )

    def trains_with(self, key: str, defaults: Mapping[str, Any]) -> bool:
        """Tell whether code of the release that trains, by FSDP, reads a key that its config does not have.

        A field of a dataclass is no such code, nor is what Megatron alone reads.

        Args:
            key: Dotted. What it has of a section that the release's config has as well need not be read.
            defaults: The release's config.
        """
        known, parts = 0, key.split(".")
        while known < len(parts) - 1 and isinstance(defaults.get(parts[known]), Mapping):
            defaults = defaults[parts[known]]
            known += 1
        return code.is_read(self.source, key, known)

    def refuses(self, key: str, config: Mapping[str, Any]) -> str | None:
        """Say why a key may not be added: the dataclass that its section becomes has no such field. None: it may."""
        parts = key.split(".")
        for end in range(len(parts) - 1, 0, -1):
            try:
                section = select(config, ".".join(parts[:end]))
            except KeyError:
                continue
            target = section.get("_target_") if isinstance(section, Mapping) else None
            if target is None:
                return None if isinstance(section, Mapping) else f"{'.'.join(parts[:end])} is no section"
            fields = _fields(self.source, str(target).rpartition(".")[2])
            if fields is not None and parts[end] not in fields:
                return f"{str(target).rpartition('.')[2]} of verl {self.release} has no field {parts[end]}"
            return None
        return None


@dataclass(frozen=True)
class Defaults:
    """A release's config without overrides: nested, and resolved key by key."""

    config: Mapping[str, Any]
    flat: Mapping[str, Any]

    @classmethod
    def of(cls, target: Target) -> Defaults:
        """Return the defaults of a release."""
        config = target.compose().config
        return cls(config, flatten(resolve(config)))

    def depth(self, key: str) -> int:
        """Return how many parts of a key are sections of the release's config."""
        parts = key.split(".")
        return next((end for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in self), 0)

    def __contains__(self, key: str) -> bool:
        try:
            select(self.config, key)
        except KeyError:
            return False
        return True


_CACHE: dict[str, frozenset[str]] = {}


def _names(source: Source) -> frozenset[str]:
    """Return the attributes and the texts in a release's code."""
    if source.sha256 not in _CACHE:
        found: set[str] = set()
        for path, data in source.files.items():
            if path.endswith(".py"):
                text = data.decode("utf-8", errors="replace")
                found.update(re.findall(r"\.([A-Za-z_]\w*)", text))
                found.update(re.findall(r"[\"']([A-Za-z_]\w*)[\"']", text))
        _CACHE[source.sha256] = frozenset(found)
    return _CACHE[source.sha256]


_CLASSES: dict[str, dict[str, tuple[set[str], list[str]]]] = {}


def _fields(source: Source, name: str) -> set[str] | None:
    """Return the fields of a config class and of those that it derives from; None where it is not found."""
    if source.sha256 not in _CLASSES:
        _CLASSES[source.sha256] = _classes(source)
    known = _CLASSES[source.sha256]
    if name not in known:
        return None
    own, bases = known[name]
    return own.union(*(_fields(source, base) or set() for base in bases))


def _classes(source: Source) -> dict[str, tuple[set[str], list[str]]]:
    found: dict[str, tuple[set[str], list[str]]] = {}
    for path in source.files:
        if path.endswith(".py") and "config" in path:
            for node in _module(source.read(path)).body:
                if isinstance(node, ast.ClassDef):
                    fields = {
                        item.target.id
                        for item in node.body
                        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                    }
                    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                    found.setdefault(node.name, (fields, bases))
    return found


@lru_cache(maxsize=256)
def _module(text: str) -> ast.Module:
    return readers.python(text)
