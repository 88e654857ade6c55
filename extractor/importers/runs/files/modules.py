"""Where the modules that a run imports are: in verl of its release, or in its checkout."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from extractor.importers.runs.files import beside, runtime_module
from extractor.importers.runs.files.imports import by_name
from extractor.importers.runs.files.places import Places
from extractor.pipeline.index import Index, Module
from extractor.pipeline.source import Source
from extractor.values import readers

# What scores a run's responses is the checkout's own, where it has it.
SCORERS = "verl.utils.reward_score"
# Where upstream and its forks have recipes.
_RECIPES = "recipe"
# What puts a file's own folder among those that modules are looked for in, and how many above it that may be.
_OWN_PATH = re.compile(r"\bsys\.path\.(?:append|insert)\(.*__file__")
_PATH = re.compile(r"""\bsys\.path\.(?:append|insert)\((?:\d+, *)?["']([^"'\n]+)["']""")
_ABOVE = 3


class Modules:
    """The modules that a run's files may import.

    Args:
        source: verl, of the run's release.
        places: Where the run may have been started from: its modules are found there.

    Attributes:
        index: verl's modules.
        places: With the folders of the packages whose files were asked for.
    """

    def __init__(self, source: Source, places: Places) -> None:
        self.index = Index(source)
        self.places = places
        # Modules of verl that are the checkout's here, which has more in them.
        self._changed: set[str] = set()
        # The folders that packages were found in beside a file that imports them.
        self._beside: dict[str, Path] = {}
        # What was looked up before, while neither the places nor whose a module is have changed.
        self._texts: dict[str, tuple[str, bool] | None] = {}
        self._known: dict[str, Module] = {}

    def text_of(self, module: str) -> tuple[str, bool] | None:
        """Return a module's text, and whether it is a package; None where there is no such module."""
        if module not in self._texts:
            self._texts[module] = self._read(module)
        return self._texts[module]

    def _read(self, module: str) -> tuple[str, bool] | None:
        if module in self.index and not self.is_of_checkout(module, None):
            return self.index[module].source, self.index[module].is_package
        file = self.file_of(module)
        if file is None:
            return ("", True) if self.is_folder(module) else None
        text = readers.read_text(file)
        self.look_beside(file, text)
        return text, file.name == "__init__.py"

    def look_beside(self, file: Path, text: str) -> None:
        """Find the folders beside a file that it imports as packages, which a program or PYTHONPATH finds there.

        Only folders, but where it puts its own folder, one above or one by its path into `sys.path`, be it as another
        machine has it: a file there may be called as the installed package that it uses (`math_verify.py`).

        Raises:
            SyntaxError: it is no Python.
        """
        own = [*file.parents][:_ABOVE] if _OWN_PATH.search(text) else []
        own += [folder / path for path in beside.joined(readers.python_again(text)) for folder in own]
        own += [folder for path in _PATH.findall(text) for folder in self.places.folders_like(path)]
        for name in _imported(readers.python_again(text)):
            root, place = name.partition(".")[0], file.parent / name.replace(".", "/")
            is_there = place.with_suffix(".py").is_file() if "." in name else (place / "__init__.py").is_file()
            where = [file.parent] if is_there else []
            where += [folder for folder in own if (folder / f"{root}.py").is_file() and root != file.stem]
            if where and self.file_of(root) is None and not self.is_folder(root):
                self._beside[root] = where[0]

    def is_folder(self, module: str) -> bool:
        """Tell whether a module is a folder of the checkout with Python files in it: `docker/` may have others only."""
        if module == _RECIPES:
            return True
        folders = [*self.places.folders, *self._folder_beside(module)]
        places = [folder / module.replace(".", "/") for folder in folders]
        return any(next(place.glob(pattern), None) for place in places for pattern in ("*.py", "*/*.py", "*/*/*.py"))

    def file_of(self, module: str) -> Path | None:
        """Return the checkout's file of a module; None where it has none."""
        path = module.replace(".", "/")
        # Recipes may be in a repository of their own, which is put into verl's under this name.
        paths = (path, path.removeprefix(f"{_RECIPES}/")) if path.startswith(f"{_RECIPES}/") else (path,)
        names = [f"{path}{end}" for path in paths for end in (".py", "/__init__.py")]
        found = next(filter(None, map(self.places.find, names)), None)
        beside = (folder / name for folder in self._folder_beside(module) for name in names)
        return found or next(filter(Path.is_file, beside), None)

    def _folder_beside(self, module: str) -> list[Path]:
        folder = self._beside.get(module.partition(".")[0])
        return [] if folder is None else [folder]

    def is_of_checkout(self, module: str, name: str | None) -> bool:
        """Tell whether the run's checkout has what its release has not: a module, a name in it, a scorer of its own."""
        file = self.file_of(module)
        if file is None or module not in self.index or module in self._changed:
            return file is not None
        known = self.index[module]
        if module.startswith(SCORERS):
            return readers.read_text(file) != known.source
        return not (name in (None, "*") or name in known.bindings or name in known.imports)

    def take_checkouts(self, module: str) -> bool:
        """Take a module's text from the checkout from now on; tells whether it was another's until now."""
        if module not in self.index or self.is_of_checkout(module, None):
            return False
        self._changed.add(module)
        self._forget()
        return True

    def _forget(self) -> None:
        self._texts.clear()
        self._known.clear()

    def _module(self, module: str) -> Module:
        """Return what is known of a module; of none, that it has nothing."""
        if module not in self._known:
            text, _ = self.text_of(module) or ("", False)
            self._known[module] = Module(module, "", text)
        return self._known[module]

    def defined(self, module: str, name: str) -> tuple[str, str]:
        """Follow a name of verl through the modules that only hand it on."""
        for _ in range(5):
            if module not in self.index or name in self.index[module].bindings:
                break
            found = self.index[module].imports.get(name)
            stars = [star for star in self.index[module].stars if star in self.index] if found is None else []
            star = next((star for star in stars if name in self.index[star].bindings), None)
            if star is not None:
                return star, name
            if found is None or found.name is None or not found.module.startswith("verl"):
                break
            module, name = found.module, found.name
        return module, name

    def hands_on(self, module: str, name: str) -> bool:
        """Tell whether a module has a name, or any of all, only because it imports it."""
        return name == "*" or name in self._module(module).imports

    def lacks(self, module: str, name: str | None) -> str | None:
        """Say that a module which has been taken has no such name; None where it may have it."""
        text, _ = self.text_of(module) or ("", False)
        known = self._module(module)
        if name in (None, "*", *known.bindings, *known.imports) or "import *" in text or "__getattr__" in text:
            return None
        return f"{module}: it has no {name}"

    def is_copy_of_pyext(self, module: str) -> bool:
        """Tell whether a module of the run's own is a copy of pyext, which Python 3.11 cannot import any more."""
        text, _ = self.text_of(module) or ("", False)
        return runtime_module.FORMER in text and runtime_module.NAME in text

    def name_of(self, file: Path) -> str:
        """Return what a file is called as a module, and look for others where its package is."""
        folder = file.resolve().parent
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        self.places = replace(self.places, folders=tuple(dict.fromkeys([*self.places.folders, folder])))
        self._forget()
        return ".".join(file.resolve().with_suffix("").relative_to(folder).parts)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that code imports by their whole names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
    yield from (str(name.value) for name in by_name(tree))
