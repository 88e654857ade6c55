"""Index a source's modules: statements, bindings, imports, effects, registries.

Nothing here is executed: `ast` gives the structure, `symtable` says which names a statement takes from its module.
A module is read when somebody asks for it, so that the index costs what the slice touches.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from extractor.pipeline.index.module import Module as Module
from extractor.pipeline.index.statement import Import as Import
from extractor.pipeline.index.statement import MemberNames as MemberNames
from extractor.pipeline.index.statement import Method as Method
from extractor.pipeline.index.statement import Statement as Statement
from extractor.pipeline.index.statement import Uses as Uses
from extractor.values.modules import name_module


class SourceText(Protocol):
    """The Python files of a source by path, such as "verl/protocol.py"."""

    @property
    def files(self) -> Mapping[str, object]: ...

    def read(self, path: str) -> str: ...


class Index:
    """The modules of a source, by dotted name."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._paths = {name_module(path): path for path in source.files if path.endswith(".py")}
        self._modules: dict[str, Module] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the dotted names of all modules and packages."""
        return frozenset(self._paths)

    def __contains__(self, module: object) -> bool:
        return module in self._paths

    def __getitem__(self, module: str) -> Module:
        if module not in self._modules:
            path = self._paths[module]
            data = self._source.files[path]
            text = self._source.read(path)
            self._modules[module] = Module(module, path, text, data if isinstance(data, bytes) else None)
        return self._modules[module]
