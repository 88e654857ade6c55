"""Resolve the modules a run imports, from its release or checkout."""

from dataclasses import replace
from pathlib import Path

from extractor.importers.runs.run_folders import RunFolders
from extractor.pipeline.index import Index, Module
from extractor.pipeline.source import Source
from extractor.values import readers

# What scores a run's responses is the checkout's own, where it has it.
SCORERS = "verl.utils.reward_score"
# Recipes may be in a repository of their own, which is put into verl's under this name.
_RECIPES = "recipe"
# How many modules that only hand a name on are followed.
_HANDED_ON = 5
# verl's scorers of code, and copies of them in forks, use pyext, which needs what Python 3.11 no longer has.
PYEXT, PYEXT_NAME, PYEXT_NEEDS = "pyext", "RuntimeModule", "inspect.getargspec"


class Modules:
    """Finds the modules that a run's files may import.

    Args:
        source: verl, of the run's release.
        places: Where the run may have been started from.

    Attributes:
        index: verl's modules.
        places: Where the run may have been started from, and where packages of its files are.
    """

    def __init__(self, source: Source, places: RunFolders) -> None:
        self.index = Index(source)
        self.places = places
        self._texts: dict[str, tuple[str, bool] | None] = {}
        self._known: dict[str, Module] = {}

    def text_of(self, module: str) -> tuple[str, bool] | None:
        """Return a module's text and whether it's a package, or None."""
        if module not in self._texts:
            self._texts[module] = self._read(module)
        return self._texts[module]

    def _read(self, module: str) -> tuple[str, bool] | None:
        if module in self.index and not self.is_of_checkout(module):
            return self.index[module].source, self.index[module].is_package
        file = self.find_file(module)
        if file is None:
            return ("", True) if self.is_folder(module) else None
        return readers.read_text(file), file.name == "__init__.py"

    def is_folder(self, module: str) -> bool:
        """Tell whether a module is a checkout folder with Python files."""
        places = [folder / module.replace(".", "/") for folder in self.places.folders]
        found = any(next(place.glob(pattern), None) for place in places for pattern in ("*.py", "*/*.py", "*/*/*.py"))
        return module == _RECIPES or found

    def find_file(self, module: str) -> Path | None:
        """Return the checkout's file of a module, or None."""
        path = module.replace(".", "/")
        paths = dict.fromkeys([path, path.removeprefix(f"{_RECIPES}/")])
        names = [f"{path}{end}" for path in paths for end in (".py", "/__init__.py")]
        return next(filter(None, map(self.places.find, names)), None)

    def is_module(self, name: str) -> bool:
        """Tell whether verl or the checkout has a module so named."""
        return name in self.index or self.find_file(name) is not None

    def is_of_checkout(self, module: str) -> bool:
        """Tell whether only the checkout has a module, or a scorer as it is there."""
        file = self.find_file(module)
        if file is None or module not in self.index:
            return file is not None
        return module.startswith(SCORERS) and readers.read_text(file) != self.index[module].source

    def parsed(self, module: str) -> Module:
        """Return a module, or an empty one if there is none."""
        if module not in self._known:
            text, is_package = self.text_of(module) or ("", False)
            self._known[module] = Module(module, "__init__.py" if is_package else "", text)
        return self._known[module]

    def defined(self, module: str, name: str) -> tuple[str, str]:
        """Return the module and name of a definition, following re-exports."""
        for _ in range(_HANDED_ON):
            if module not in self.index:
                break
            known = self.index[module]
            found = known.imports.get(name) if name not in known.bindings else None
            if found is None or found.name is None or not found.module.startswith("verl"):
                break
            module, name = found.module, found.name
        return module, name

    def lacks(self, module: str, name: str | None) -> str | None:
        """Say that a module lacks a name, or return None."""
        text, _ = self.text_of(module) or ("", False)
        known = self.parsed(module)
        if name in (None, "*", *known.bindings, *known.imports) or "import *" in text or "__getattr__" in text:
            return None
        return f"{module}: it has no {name}"

    def name_of(self, file: Path) -> str:
        """Return a file's module name; add its package's folder to places."""
        folder = file.resolve().parent
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        self.places = replace(self.places, folders=tuple(dict.fromkeys([*self.places.folders, folder])))
        self._texts.clear()
        self._known.clear()
        return ".".join(file.resolve().with_suffix("").relative_to(folder).parts)
