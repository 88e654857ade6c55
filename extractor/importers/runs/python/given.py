"""Functions that score, by what a trainer gets: also those that a script takes from a table of its repository.

What a factory, `partial` or a class has made them with is written at the end of the text of the module that has these,
where it can be copied like what stands at its top.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from extractor.importers.runs.module_imports import Name, rewritten
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.scorers import settled
from extractor.importers.runs.python.states import State, plain_of
from extractor.importers.runs.python.values import Computed, FilePath, Items, Made, Own, OwnClass, Ref, Unsaid
from extractor.values import readers
from extractor.values.modules import absolute

_PARTIAL = ("partial", "functools.partial")
_WRAPS = ("update_wrapper", "functools.update_wrapper")


class Given(NamedTuple):
    """Functions of a module: its file, its text with what they are made of, and their names there.

    `folder` is where the module's own imports are found.
    """

    path: Path
    text: str
    functions: tuple[str, ...]
    folder: Path


# Where what makes objects of dicts is imported from.
_MAKERS = {
    "OmegaConf.create": "from omegaconf import OmegaConf",
    "SimpleNamespace": "from types import SimpleNamespace",
}
# How much a function may be made of.
_MOST_PARTS = 200


class _Unknown(Exception):
    """Something is not known, or not to be written down."""


def given_to_score(value: Any, state: State, run: Run, text: str) -> Given | None:
    """Return the functions that a trainer gets; None where they cannot be written down.

    Args:
        value: What it gets: one, or a list.
        state: The objects that there are then.
        run: The script.
        text: Of the script.
    """
    functions = run.iterated(value) or [value]
    modules = {run.path: (run.tree, text), **run.trees}
    for path in _modules(functions[0], state, run):
        names: list[str] = []
        lines: dict[str, str] = {}
        writer = _Writer(state, run, run.names_in(path))
        try:
            for item in functions:
                made = writer.function(item)
                name = made if made.isidentifier() else _named(made, {*writer.names.values(), *lines})
                names.append(name)
                if made != name:
                    lines[name] = f"{name} = {made}"
        except (_Unknown, RecursionError):
            continue
        module = settled(writer.used, *modules[path], run)
        if module is not None and len(set(names)) == len(names):
            imports = sorted(writer.imports)
            whole = "\n".join([module.rstrip("\n"), "", *imports, *lines.values()]) + "\n"
            folder = path.parent if path == run.path else _folder_of(path, run.modules[path].name)
            return Given(path, with_whole_imports(whole, path, folder), tuple(names), folder)
    return None


def with_whole_imports(text: str, path: Path, folder: Path) -> str:
    """Return a module's text with its relative imports as seen from the folder that its imports are found in."""
    module = ".".join(path.resolve().relative_to(folder.resolve()).with_suffix("").parts)
    tree, is_package = readers.python(text), path.name == "__init__.py"
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    module = module.removesuffix(".__init__")
    relative = {absolute(node, module, is_package=is_package) for node in nodes}

    def moved(name: Name) -> tuple[str, str | None] | None:
        return (name.module, name.name) if name.module in relative else None

    return rewritten(text, module, moved, is_package=is_package) if relative else text


def _folder_of(path: Path, name: str) -> Path:
    """Return the folder that a module's package lies in.

    Args:
        path: Of the module.
        name: By which it was imported.
    """
    above = path.parent
    while (above / "__init__.py").is_file():
        above = above.parent
    by_name = path.parents[name.count(".")]
    return min(above, by_name, key=lambda folder: len(folder.parts))


def _modules(function: Any, state: State, run: Run) -> Iterator[Path]:
    """Yield the files that may have all functions: the one that has the first, and the script."""
    seen = _first(function, state, run)
    if isinstance(seen, (Own, OwnClass)) and seen.scope.path != run.path:
        yield seen.scope.path
    yield run.path


def _first(value: Any, state: State, run: Run) -> Any:
    """Return the function or class of the script's that something is made by."""
    if value in run.made_by:
        return _first(run.made_by[value][0], state, run)
    made = state.of(value)
    if isinstance(made, Made) and made.given:
        return _first(made.given[0], state, run)
    return value


def _named(text: str, taken: set[str]) -> str:
    """Return a name for what an expression makes."""
    last = text.rpartition(".")[2]
    made = text.removeprefix("partial(").partition("(")[0].partition(",")[0].rpartition(".")[2]
    first = last if last.isidentifier() else made
    name = first.lower() if first.isidentifier() else "reward"
    while name in taken:
        name += "_"
    return name


class _Writer:
    """Writes values as they can stand at the end of a module."""

    def __init__(self, state: State, run: Run, names: Mapping[Any, str]) -> None:
        self.state, self.run, self.names = state, run, names
        self.imports: set[str] = set()
        self.used: set[str] = set()
        self.count = 0

    def function(self, value: Any) -> str:
        """Return how a function is written.

        Raises:
            _Unknown: it is none, or cannot be written.
        """
        made = self.state.of(value)
        is_function = isinstance(value, Own) or (isinstance(value, Ref) and value in self.run.made_by)
        if not is_function and not (isinstance(made, Made) and made.of in (*_WRAPS, *_PARTIAL)):
            raise _Unknown
        return self.text(value)

    def text(self, value: Any) -> str:
        """Return how a value is written.

        Raises:
            _Unknown: it cannot be written, or only the script knows it.
        """
        self.count += 1
        if self.count > _MOST_PARTS:
            raise _Unknown
        if isinstance(value, (Own, OwnClass)) and value in self.names:
            self.used.add(self.names[value])
            return self.names[value]
        if isinstance(value, Own) and isinstance(value.owner, Ref) and hasattr(value.node, "name"):
            return f"{self.text(value.owner)}.{value.node.name}"
        if isinstance(value, (Own, Ref)) and value in self.run.made_by:
            maker, arguments, named = self.run.made_by[value]
            return f"{self.text(maker)}({self._arguments(arguments, named)})"
        made = self.state.of(value)
        if isinstance(made, Made) and made.of in _WRAPS and made.given:
            return self.text(made.given[0])
        if isinstance(made, Made) and made.of in _PARTIAL and made.given:
            self.imports.add("from functools import partial")
            return f"partial({self._arguments(made.given, made.named)})"
        if isinstance(made, Items) and made.maker and made.is_whole:
            return self._object(made)
        if isinstance(made, Made) and made.kind is not None:  # filled from the command line
            items = {**made.defaults.items, **made.named.items, **made.attributes.items}
            return self._object(Items(items, maker="SimpleNamespace"))
        if isinstance(value, FilePath):
            self.imports.add("from pathlib import Path")
            return f"Path({str(value)!r})"
        plain = plain_of(value, self.state)
        if isinstance(plain, Computed) or isinstance(value, (Own, OwnClass)):
            raise _Unknown
        return repr(plain)

    def _object(self, made: Items) -> str:
        """Return an object whose attributes are the items that are known; what is not known fails where it is used."""
        plain = {
            name: None if isinstance(value, Unsaid) else plain_of(value, self.state)
            for name, value in made.items.items()
        }
        plain = {name: value for name, value in plain.items() if not isinstance(value, Computed)}
        self.imports.add(_MAKERS[made.maker])
        if made.maker == "SimpleNamespace":
            paths = {name: made.items[name] for name in plain if isinstance(made.items[name], FilePath)}
            written = {name: self.text(paths[name]) if name in paths else repr(value) for name, value in plain.items()}
            return f"SimpleNamespace({', '.join(f'{name}={value}' for name, value in written.items())})"
        return f"{made.maker}({plain!r})"

    def _arguments(self, given: tuple[Any, ...], named: Items) -> str:
        if not named.is_whole:
            raise _Unknown
        by_name = (f"{name}={self.text(value)}" for name, value in named.items.items())
        return ", ".join([*map(self.text, given), *by_name])
