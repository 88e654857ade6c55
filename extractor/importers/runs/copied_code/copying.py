"""Copy a run's files with the modules that they import."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from extractor.importers.config import templates
from extractor.importers.config.templates import read_table
from extractor.importers.python_text import definitions
from extractor.importers.python_text.module_imports import Name, list_top_names, rewrite_imports
from extractor.importers.runs.run_folders import RunFolders
from extractor.pipeline.index import Index, Module
from extractor.pipeline.render.fold import drop_imports
from extractor.pipeline.source import Source
from extractor.values import readers
from extractor.values.modules import name_module
from extractor.values.tree import FileKind, Tree

FOLDER = "from_run"
_NO_PROJECT_HAS = ("ray", "megatron", "mbridge", "vllm", "sglang")
# The module that copies import in the place of pyext.
_PYEXTS_PLACE = "runtime_module"
# The one for Ray, and what of Ray it has.
_LOCAL_RAY, _OF_RAY = "local_ray", frozenset({"remote", "get", "put", "wait", "init", "is_initialized"})
_PACKAGES: Mapping[str, str] = read_table("keys")["packages"]
_MODULES = {package: module for module, package in _PACKAGES.items()}
# Where a name is in a project: its module, and the name there; None for the module itself.
_Place = tuple[str, str | None]
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

    def lacks(self, module: str, name: str) -> str | None:
        """Say that a module lacks a name, or return None."""
        text, _ = self.text_of(module) or ("", False)
        known = self.parsed(module)
        if name in ("*", *known.bindings, *known.imports) or "import *" in text or "__getattr__" in text:
            return None
        if self.is_module(f"{module}.{name}"):
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


@dataclass(frozen=True)
class Copied:
    """A copied file, and what it lacks."""

    text: str = field(repr=False)
    missing: tuple[str, ...]
    packages: tuple[str, ...]


@dataclass
class _Gathered:
    """Modules, files and packages that the copies need."""

    taken: dict[str, set[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)

    def copy(self) -> _Gathered:
        """Return an independent copy."""
        return _Gathered(dict(self.taken), dict(self.files), set(self.packages))


class Copying:
    """Copies files into a package, and gathers what these import.

    Args:
        package: The project's.
        tree: The project's files, with the modules of verl that it has.
        source: verl, of the run's release.
        places: Where the run may have been started from.
    """

    def __init__(self, package: str, tree: Tree, source: Source, places: RunFolders) -> None:
        self._package = package
        self._modules = Modules(source, places)
        self._vendored = dict(_map_vendored(tree))
        self._required = _list_required_modules(tree)
        self._gathered = _Gathered()
        self._own_of_verl: str | None = None
        # What the file that was asked for is called as a module.
        self._itself = ""

    @property
    def files(self) -> dict[str, str]:
        """Return the files gathered besides those asked for, by path."""
        return self._gathered.files

    def name_module(self, path: str) -> str:
        """Return the module name of a checkout file."""
        file = self._modules.places.find(path)
        return path if file is None else self._modules.name_of(file)

    def copy(
        self,
        text: str,
        roots: Collection[str],
        own: str | None = None,
        place: Path | None = None,
        *,
        only_part: bool = False,
    ) -> Copied:
        """Copy a file, or the part that its roots need.

        Args:
            text: Of the file.
            roots: The names in it that the project calls.
            own: A package of verl that is taken from the run's release, also where the project has it.
            place: Where it is, for its relative imports.
            only_part: Whether the whole is not wanted.

        Raises:
            SyntaxError: it is no Python.
        """
        self._own_of_verl = own
        self._gathered.packages.clear()
        self._itself = "" if place is None else self._modules.name_of(place)
        whole = definitions.drop_launch(text)
        before, part = self._gathered.copy(), definitions.cut_needed_part(whole, roots)
        used = part if only_part else self._drop_unused(whole, self._itself, roots)
        copied, missing = self._redirect_imports(used, "", is_package=False)
        if missing and not only_part:
            self._gathered = before
            copied, missing = self._redirect_imports(part, "", is_package=False)
        return Copied(copied, tuple(missing), tuple(sorted(self._gathered.packages)))

    def _drop_unused(self, text: str, module: str, roots: Collection[str], *, is_package: bool = False) -> str:
        """Return a module's text without unused imports that have no effect."""
        idle = definitions.list_unused_imports(text).difference(roots)
        names = list_top_names(text, module, is_package=is_package) if idle else ()
        bound = ((name.local.partition(".")[0], name) for name in names)
        left = {local for local, name in bound if local in idle and self._is_idle(name, inside=is_package)}
        return drop_imports(text, left)

    def _is_idle(self, name: Name, *, inside: bool) -> bool:
        """Tell whether an import has no effect but binding a name."""
        if self._is_package(name.module.partition(".")[0]):
            return True
        is_module = name.name is None or self._modules.find_file(f"{name.module}.{name.name}") is not None
        text, _ = self._modules.text_of(name.module) or ("", False)
        return not (inside or is_module or name.name == "*") and bool(text) and "register" not in text

    def _is_package(self, root: str) -> bool:
        """Tell whether a root module is a third-party package not required."""
        if root in ("verl", self._package) or root in sys.stdlib_module_names or root in self._required:
            return False
        return self._modules.find_file(root) is None and not self._modules.is_folder(root)

    def _redirect_imports(self, text: str, module: str, *, is_package: bool) -> tuple[str, list[str]]:
        """Return a module's text with redirected imports, and missing names."""
        missing: list[str] = []
        name_of_it = module or self._itself
        attributes, inherited = definitions.map_attributes(text), definitions.map_inherited(text)
        if module:  # before anything is looked for that it imports besides
            names = list_top_names(text, module, is_package=is_package)
            left = (name for name in names if not _is_local(name, attributes.get(name.local, ())))
            roots = (name.module.partition(".")[0] for name in left)
            missing += [f"{root}: no project has it" for root in roots if root in _NO_PROJECT_HAS][:1]

        def moved(name: Name) -> _Place | None:
            if missing and module:  # it cannot be had, whatever else it imports
                return None
            used = attributes.get(name.local, ())
            place = self._locate_name(name, used, module.startswith("verl."), inherited.get(name.local, ()))
            if not isinstance(place, str):
                return place
            if name.needed:
                missing.append(place)
            return None

        return rewrite_imports(text, name_of_it, moved, is_package=is_package), missing

    def _locate_name(
        self, name: Name, attributes: Collection[str], verls: bool, inherited: Collection[str]
    ) -> _Place | str | None:
        """Return a name's place, an error, or None if unchanged."""
        root = name.module.partition(".")[0]
        if _is_local(name, attributes):
            self.files[f"custom/{FOLDER}/{_LOCAL_RAY}.py"] = templates.render(f"{_LOCAL_RAY}.py")
            return self._name_copy(_LOCAL_RAY), None
        if root in _NO_PROJECT_HAS:
            return f"{root}: no project has it"
        if root in sys.stdlib_module_names or root in self._required or root == self._package:
            return None
        text, _ = self._modules.text_of(name.module) or ("", False)
        if name.name == PYEXT_NAME and (root == PYEXT or (PYEXT_NEEDS in text and PYEXT_NAME in text)):
            self.files[f"custom/{FOLDER}/{_PYEXTS_PLACE}.py"] = templates.render(f"{_PYEXTS_PLACE}.py")
            return self._name_copy(_PYEXTS_PLACE), name.name
        if root == "verl":
            return self._locate_verl_name(name, attributes, inherited)
        if self._is_package(root):
            if name.needed or not verls:
                full = name.module if name.name is None else f"{name.module}.{name.name}"
                self._gathered.packages.add(name_package(full))
            return None
        is_module = name.name is not None and self._modules.find_file(f"{name.module}.{name.name}") is not None
        module, inner = (f"{name.module}.{name.name}", None) if is_module else (name.module, name.name)
        return self._copy_module(module, inner, attributes if inner is None else {inner})

    def _locate_verl_name(self, name: Name, attributes: Collection[str], inherited: Collection[str]) -> _Place | str:
        """Return where a verl name is placed, or why it cannot."""
        module, inner = name.module, name.name
        if inner is not None and self._modules.is_module(f"{module}.{inner}"):
            module, inner = f"{module}.{inner}", None
        if inner is not None and inner != "*":
            module, inner = self._modules.defined(module, inner)
        if module == "verl":  # it reads files that lie beside it, and imports much that needs Ray
            return f"{module}{f'.{inner}' if inner else ''}: no project has the whole of verl"
        wanted = {inner} if inner is not None else set(attributes)
        if self._modules.is_of_checkout(module):
            return self._copy_module(module, inner, wanted)
        if module not in self._modules.index:
            return f"{module}: this release of verl has no such module"
        path = self._modules.index[module].path
        is_own = self._own_of_verl is not None and module.startswith(self._own_of_verl)
        if not is_own and path in self._vendored and "*" not in wanted:
            place, known = self._vendored[path]
            # A project's class may be without methods that nothing in the project uses.
            gone = _list_methods(self._modules.index[module], inner) - _list_methods(known, inner)
            if wanted <= known.bindings.keys() and not gone & set(inherited):
                return place, inner
        return self._copy_module(module, inner, wanted)

    def _copy_module(self, module: str, inner: str | None, wanted: Collection[str]) -> _Place | str:
        """Copy a module; return a name's place or the problem."""
        problem = self._take(module, wanted)
        lacking = (self._modules.lacks(module, name) for name in sorted({*wanted, inner or "*"}))
        return problem or next(filter(None, lacking), None) or (self._name_copy(module), inner)

    def _take(self, module: str, names: Collection[str]) -> str | None:
        """Copy a module with the given names; return any problem.

        If the whole cannot be copied or needs more packages, only the part that the names need is copied.
        """
        found, taken = self._modules.text_of(module), self._gathered.taken
        if module in taken and taken[module].issuperset(names):
            return None
        wanted = frozenset({*names, *taken.get(module, ())})
        if found is None:
            return f"{module}: no such module"
        before, (text, is_package) = self._gathered.copy(), found
        if "*" not in wanted:
            text = self._drop_unused(text, module, wanted, is_package=is_package)
        missing = self._gather(module, text, {*wanted, *self._modules.parsed(module).bindings}, is_package)
        part = definitions.cut_needed_part(text, wanted) if wanted else text
        if part != text and (missing or self._gathered.packages > before.packages):
            whole, self._gathered = self._gathered, before.copy()
            lacking = self._gather(module, part, wanted, is_package)
            if lacking or (not missing and self._gathered.packages == whole.packages):
                self._gathered = whole
            else:
                missing = []
        if not missing:
            return None
        self._gathered = before  # what only it needs is gathered for nothing
        return f"{module}: it imports {missing[0]}"

    def _gather(self, module: str, text: str, names: Collection[str], is_package: bool) -> list[str]:
        """Copy a module; return what is missing."""
        self._gathered.taken[module] = set(names)
        redirected, missing = self._redirect_imports(text, module, is_package=is_package)
        if missing:
            return missing
        path = PurePosixPath(f"custom/{FOLDER}/{module.replace('.', '/')}")
        if self._gathered.taken[module] == set(names):  # else what it imports has asked for more of it by now
            self.files[f"{path}/__init__.py" if is_package else f"{path}.py"] = redirected
        return []

    def _name_copy(self, module: str) -> str:
        return f"{self._package}.custom.{FOLDER}.{module}"


def _is_local(name: Name, attributes: Collection[str]) -> bool:
    """Tell whether one process can do what Ray is for."""
    return name.module == "ray" and name.name is None and _OF_RAY.issuperset(attributes)


def _list_methods(module: Module, cls: str | None) -> set[str]:
    """Return a class's method names; empty for anything else."""
    return {method.name for index in module.bindings.get(cls or "", ()) for method in module.methods(index)}


def _map_vendored(tree: Tree) -> Iterator[tuple[str, tuple[str, Module]]]:
    """Yield upstream path, project name and index of vendored modules."""
    for file in tree:
        if file.kind is FileKind.VENDORED and file.upstream_path and file.path.endswith(".py"):
            name = name_module(file.path)
            yield file.upstream_path, (name, Module(name, file.path, file.data.decode()))


def name_package(module: str) -> str:
    """Return the package to install for a module's full name."""
    parts = module.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((_PACKAGES[name] for name in names if name in _PACKAGES), parts[0])


def _list_required_modules(tree: Tree) -> set[str]:
    """Return the module names of a project's required packages."""
    data: Mapping[str, object] = {}
    for file in tree:
        if file.path == "pyproject.toml":
            data = readers.parse_toml(file.data.decode())
    project = data.get("project")
    asked = project.get("dependencies", []) if isinstance(project, dict) else []
    names = [Requirement(str(item)).name.lower() for item in asked]
    return {_MODULES.get(name, name.replace("-", "_")) for name in names} | {"tqdm", "typing_extensions", "requests"}
