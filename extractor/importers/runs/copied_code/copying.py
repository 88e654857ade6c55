"""Copies of a run's files, with what they import: the owner's own modules, and verl's that a project lacks."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from extractor.importers.runs import definitions, templates
from extractor.importers.runs.copied_code.modules import PYEXT_NAME, SCORERS, Modules
from extractor.importers.runs.copied_code.packages import package_of, required_modules
from extractor.importers.runs.module_imports import Name, names_by_module, rewritten, top_names
from extractor.importers.runs.places import RunFolders
from extractor.pipeline.index import Module
from extractor.pipeline.source import Source
from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.fingerprint import fingerprint
from extractor.values.modules import module_name
from extractor.values.tree import FileKind, Tree

FOLDER = "from_run"
# More modules of verl than this, its scorers aside, are no helpers of a function.
_MOST = 40
_TOO_MANY = f"more than {_MOST} modules hang on it"
_NO_PROJECT_HAS = ("ray", "megatron", "mbridge", "vllm", "sglang")
# What transformers 5, which a project requires, has under another name.
_RENAMED = {("transformers", "AutoModelForVision2Seq"): "AutoModelForImageTextToText"}
# The module that copies import in the place of pyext.
_PYEXTS_PLACE = "runtime_module"
# A path that may be that of a file beside a module has no more characters.
_LONGEST = 200


@dataclass(frozen=True)
class Copied:
    """A file of the run as the project has it.

    Attributes:
        text: With its imports redirected, without what cannot be had and nothing needs.
        missing: What it needs and cannot have, each with why.
        left_out: Definitions that were left out.
        packages: What it imports that a project does not require.
        absent: What it may import in functions or on conditions and cannot have, each with why.
    """

    text: str = field(repr=False)
    missing: tuple[str, ...]
    left_out: tuple[str, ...]
    packages: tuple[str, ...]
    absent: tuple[str, ...] = ()


@dataclass
class _Gathered:
    """What copies need besides themselves.

    Attributes:
        taken: Modules, each with why it cannot be had; None where it can.
        files: By path below the package.
        packages: That a project does not require.
        absent: What need not be had, and cannot be.
        parts: Modules of which only a part is had, with the names it was asked for.
    """

    taken: dict[str, str | None] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    parts: dict[str, set[str]] = field(default_factory=dict)

    def copy(self) -> _Gathered:
        """Return another that holds the same."""
        return _Gathered(dict(self.taken), dict(self.files), set(self.packages), set(self.absent), dict(self.parts))


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
        self._source = source
        self._modules = Modules(source, places)
        self._vendored = dict(_vendored(tree))
        self._required = required_modules(tree)
        self._gathered = self._before = _Gathered()
        # Why names of a module cannot be had, of the file that is being copied.
        self._problems: dict[tuple[str, frozenset[str]], str] = {}
        # Modules that others take from what they themselves only import.
        self._handing_on: set[str] = set()
        self._own_of_verl: str | None = None
        # What the file that was asked for is called as a module.
        self._itself = ""
        # What the file at hand takes from each module.
        self._together: dict[str, set[str]] = {}

    @property
    def files(self) -> dict[str, str]:
        """Return what was gathered besides the files asked for, by path below the package."""
        return self._gathered.files

    def copy(
        self,
        text: str,
        roots: Collection[str],
        own: str | None = None,
        place: Path | None = None,
        version_of: str | None = None,
    ) -> Copied:
        """Copy a file.

        Args:
            text: Of the file.
            roots: The names in it that the project calls.
            own: A package of verl that is taken from the run's release, also where the project has it.
            place: Where it is, for its relative imports.
            version_of: Its path in verl, where it is a version of a file there: only what the roots need is copied,
                and what the project has of it stays the project's.

        Raises:
            SyntaxError: it is no Python.
        """
        self._own_of_verl = own
        self._gathered.packages.clear()
        self._gathered.absent.clear()
        self._problems.clear()
        self._before = self._gathered.copy()
        whole = definitions.without_launch(text)
        part = whole if version_of is None else definitions.needed_part(whole, roots, self._same(whole, version_of))
        self._itself = "" if place is None else self._modules.name_of(place)
        used = self._without_unused(part, self._itself, is_package=False, roots=roots)
        available, left_out = self._without_unavailable(used, roots)
        if left_out:  # what only they need was gathered for nothing
            self.undo()
        copied, missing = self._redirected(available, "", is_package=False)
        packages, absent = sorted(self._gathered.packages), sorted(self._gathered.absent)
        return Copied(copied, tuple(missing), tuple(left_out), tuple(packages), tuple(absent))

    def undo(self) -> None:
        """Forget what the last copy has gathered."""
        self._gathered = self._before.copy()

    def _same(self, text: str, path: str) -> dict[str, str]:
        """Return the definitions of a version of a file that the project has, each with its module.

        These are what is the same there, and what registers under a name: a copy would fill its own registry.
        """
        theirs = Module("file", "file.py", text)
        found: dict[str, str] = {}
        for place, known in self._vendored.values():
            found.update(dict.fromkeys(known.registering.keys() & theirs.bindings.keys(), place))
        if path not in self._vendored:
            return found
        place, known = self._vendored[path]
        registries = {name for names in known.registering.values() for name in names}
        same = {
            name
            for name in theirs.bindings.keys() & known.bindings.keys()
            if name in found or name in registries or _prints(theirs, name) == _prints(known, name)
        }
        users = {name: definitions.loaded_by(theirs, theirs.bindings[name]) & theirs.bindings.keys() for name in same}
        while others := {name for name in same if not users[name] <= same and name not in found}:
            same -= others  # what needs something that is not the same is not the same either
        return found | dict.fromkeys(same, place)

    def _without_unused(self, text: str, module: str, *, is_package: bool, roots: Collection[str] = ()) -> str:
        """Return a module's text without unused imports that do nothing: not of what may register something."""
        idle = definitions.unused(text).difference(roots)
        names = top_names(text, module, is_package=is_package) if idle else ()
        left = {name.local for name in names if name.local in idle and self._is_idle(name, inside=is_package)}
        return definitions.without_imports(text, left) if left else text

    def _is_idle(self, name: Name, *, inside: bool) -> bool:
        """Tell whether an import only binds a name; `inside` is whether it stands in a package's own module."""
        if self._is_package(name.module.partition(".")[0]):
            return True
        is_module = name.name is None or self._modules.file_of(f"{name.module}.{name.name}") is not None
        text, _ = self._modules.text_of(name.module) or ("", False)
        return not (inside or is_module or name.name == "*") and bool(text) and "register" not in text

    def _without_unavailable(self, text: str, roots: Collection[str]) -> tuple[str, list[str]]:
        """Leave out definitions that need what cannot be had, where nothing else needs them."""
        module = Module(self._itself or "file", "file.py", text)
        self._together = names_by_module(text, module.name, is_package=False)
        lost = {
            name.local.partition(".")[0]
            for name in top_names(text, module.name, is_package=False)
            if isinstance(self._place(name, (), False), str)
        }
        if not lost or not all(name in module.bindings for name in roots):
            return text, []
        return definitions.without_lost(text, module, roots, lost)

    def _is_package(self, root: str) -> bool:
        """Tell whether a module's first name is that of a package which a project does not require."""
        if root in ("verl", self._package) or root in sys.stdlib_module_names or root in self._required:
            return False
        return self._modules.file_of(root) is None and not self._modules.is_folder(root)

    def _redirected(self, text: str, module: str, *, is_package: bool) -> tuple[str, list[str]]:
        """Return a module's text with its imports redirected, and what it needs and cannot have."""
        missing: list[str] = []
        name_of_it = module or self._itself
        before, self._together = self._together, names_by_module(text, name_of_it, is_package=is_package)
        attributes, inherited = definitions.attributes(text), definitions.inherited(text)
        tried = definitions.imported_on_trial(text)
        if module:  # before anything is looked for that it imports besides
            roots = (name.module.partition(".")[0] for name in top_names(text, module, is_package=is_package))
            missing += [f"{root}: no project has it" for root in roots if root in _NO_PROJECT_HAS][:1]

        def moved(name: Name) -> tuple[str, str | None] | None:
            if missing and module:  # it cannot be had, whatever else it imports
                return None
            used = attributes.get(name.local, ())
            place = self._place(name, used, module.startswith("verl."), inherited.get(name.local, ()))
            if not isinstance(place, str):
                return place
            if name.needed:
                missing.append(place)
            elif name.local not in tried and not place.startswith(_NO_PROJECT_HAS):
                self._gathered.absent.add(place)
            return None

        redirected = rewritten(text, name_of_it, moved, is_package=is_package)
        self._together = before
        return redirected, missing

    def _place(
        self, name: Name, attributes: Collection[str], verls: bool, inherited: Collection[str] = ()
    ) -> tuple[str, str | None] | str | None:
        """Return where a name is in the project; why it is not there; or None where it stays as it is."""
        root = name.module.partition(".")[0]
        if root in _NO_PROJECT_HAS:
            return f"{root}: no project has it"
        if renamed := _RENAMED.get((name.module, name.name or "")):
            return name.module, renamed
        if root in sys.stdlib_module_names or root in self._required or root == self._package:
            return None
        if name.name == PYEXT_NAME and self._modules.is_pyext(name.module):
            self.files[f"custom/{FOLDER}/{_PYEXTS_PLACE}.py"] = templates.render(f"{_PYEXTS_PLACE}.py")
            return self._new(_PYEXTS_PLACE), name.name
        if root == "verl":
            return self._of_verl(name, attributes, inherited)
        if self._is_package(root):
            if name.needed or not verls:
                full = name.module if name.name is None else f"{name.module}.{name.name}"
                self._gathered.packages.add(package_of(full))
            return None
        is_module = name.name is not None and self._modules.file_of(f"{name.module}.{name.name}") is not None
        module, inner = (f"{name.module}.{name.name}", None) if is_module else (name.module, name.name)
        return self._copied(module, inner, attributes if inner is None else {inner})

    def _of_verl(
        self, name: Name, attributes: Collection[str], inherited: Collection[str]
    ) -> tuple[str, str | None] | str:
        """Return where a name of verl's is: in the project, or in a copy; why it cannot be had."""
        module, inner = name.module, name.name
        if inner is not None and self._modules.is_module(f"{module}.{inner}"):
            module, inner = f"{module}.{inner}", None
        if inner is not None and inner != "*":
            module, inner = self._modules.defined(module, inner)
        if module == "verl":  # it reads files that lie beside it, and imports much that needs Ray
            return f"{module}{f'.{inner}' if inner else ''}: no project has the whole of verl"
        wanted = {inner} if inner is not None else set(attributes)
        if any(self._modules.is_of_checkout(module, item) for item in wanted or (None,)):
            if self._modules.take_checkouts(module):
                self._gathered.taken.pop(module, None)
            return self._copied(module, inner, wanted)
        if module not in self._modules.index:
            return f"{module}: this release of verl has no such module"
        path = self._modules.index[module].path
        is_own = self._own_of_verl is not None and module.startswith(self._own_of_verl)
        if not is_own and path in self._vendored and "*" not in wanted:
            place, known = self._vendored[path]
            # A project's class may be without methods that nothing in the project uses.
            gone = definitions.methods(self._modules.index[module], inner) - definitions.methods(known, inner)
            if wanted <= known.bindings.keys() and not gone & set(inherited):
                return place, inner
        return self._take(module, wanted) or (self._new(module), inner)

    def _copied(self, module: str, inner: str | None, wanted: Collection[str]) -> tuple[str, str | None] | str:
        """Copy a module of the checkout; returns where a name of it is then, or why it cannot be had."""
        problem = self._take(module, wanted) or self._modules.lacks(module, inner)
        return problem or (self._new(module), inner)

    def _take(self, module: str, names: Collection[str]) -> str | None:
        """Copy a module, once, from which names are taken; returns why it cannot be had.

        All that a file takes from it is asked for together, and one by one where that cannot be had.
        """
        taken = self._together.get(module, ())  # of a package these may be modules in it
        together = {name for name in taken if self._modules.lacks(module, name) is None}.union(names)
        if len(together) > len(names):
            before = self._gathered.copy()
            if self._take_names(module, together) is None:
                return None
            self._gathered = before
        return self._take_names(module, names)

    def _take_names(self, module: str, names: Collection[str]) -> str | None:
        taken, part = self._gathered.taken, self._gathered.parts.get(module)
        if module not in self._handing_on and any(self._modules.hands_on(module, name) for name in names):
            self._handing_on.add(module)
        elif module in taken and (part is None or part.issuperset(names)):
            return taken[module]
        asked = module, frozenset(names)
        if asked in self._problems:
            return self._problems[asked]
        if sum(not name.startswith(SCORERS) for name in taken) >= _MOST:
            return f"{module}: {_TOO_MANY}"
        found = self._modules.text_of(module)
        if found is None:
            taken[module] = f"{module}: no such module"
            return taken[module]
        text, is_package = found
        if hands_on := module in self._handing_on:
            names = ()
        before = self._gathered.copy()
        missing = self._gather(
            module, text if hands_on else self._without_unused(text, module, is_package=is_package), is_package
        )
        if names and (missing or self._gathered.packages > before.packages):
            missing = self._gather_part(module, {*names, *(part or ())}, missing, before)
        if not missing:
            return None
        self._gathered = before  # what only it needs is gathered for nothing
        problem = f"{module}: it imports {missing[0]}"
        self._gathered.taken.setdefault(module, problem)
        if _TOO_MANY not in problem:  # that depends on what else was taken
            self._problems[asked] = problem
        return problem

    def _gather_part(self, module: str, names: set[str], missing: list[str], before: _Gathered) -> list[str]:
        """Copy what names of a module need in the place of the whole, if that can be had or needs fewer packages.

        Args:
            module: Of which the whole has been gathered.
            names: What is asked for.
            missing: What the whole needs and cannot have.
            before: What had been gathered before the module was.
        """
        text, is_package = self._modules.text_of(module) or ("", False)
        text = self._without_unused(text, module, is_package=is_package)
        less = definitions.needed_part(text, names, {})
        if less == text:
            return missing
        whole, self._gathered = self._gathered, before.copy()
        lacking = self._gather(module, less, is_package)
        if lacking or (not missing and self._gathered.packages == whole.packages):
            self._gathered = whole
            return missing
        self._gathered.parts[module] = names
        return []

    def _gather(self, module: str, text: str, is_package: bool) -> list[str]:
        """Copy a module's text, and the files that it opens beside itself; returns what it cannot have."""
        self._gathered.taken[module] = None
        redirected, missing = self._redirected(text, module, is_package=is_package)
        if missing:
            return missing
        path = PurePosixPath(f"custom/{FOLDER}/{module.replace('.', '/')}")
        self.files[f"{path}/__init__.py" if is_package else f"{path}.py"] = redirected
        if module not in self._modules.index or self._modules.is_of_checkout(module, None):
            folder, place = path if is_package else path.parent, self._modules.file_of(module)
            self.files.update({f"{folder}/{name}": held for name, held in _opened(text, place)})
        return []

    def _new(self, module: str) -> str:
        return f"{self._package}.custom.{FOLDER}.{module}"


def _opened(text: str, place: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the text files that a module names below its own folder, by their paths there."""
    if "__file__" not in text or place is None:
        return
    constants = (node.value for node in ast.walk(readers.parse_python_cached(text)) if isinstance(node, ast.Constant))
    for name in dict.fromkeys(value for value in constants if isinstance(value, str) and 0 < len(value) < _LONGEST):
        path = PurePosixPath(name)
        is_odd = not name.isprintable() or path.is_absolute() or ".." in path.parts or path.suffix == ".py"
        file = place.parent / path
        if is_odd or not readers.is_there(file) or not file.resolve().is_relative_to(place.parent.resolve()):
            continue
        try:
            yield str(path), readers.read_text(file)
        except (OSError, UnicodeDecodeError, UsageError):
            continue


def _prints(module: Module, name: str) -> list[str]:
    """Return the fingerprints of a name's definitions."""
    return [fingerprint(module.statements[index].node) for index in module.bindings[name]]


def _vendored(tree: Tree) -> Iterator[tuple[str, tuple[str, Module]]]:
    """Yield the path upstream of each module of verl in a project, its name there and what it is."""
    for file in tree:
        if file.kind is FileKind.VENDORED and file.upstream_path and file.path.endswith(".py"):
            name = module_name(file.path)
            yield file.upstream_path, (name, Module(name, file.path, file.data.decode()))
