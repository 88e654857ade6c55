"""Copies of the files that a run names, with what they import: the owner's own modules, and verl's."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

from extractor.importers.runs.files import beside, contents, earlier_dataset, in_process, runtime_module
from extractor.importers.runs.files.gathered import Copied, Gathered
from extractor.importers.runs.files.imports import Name, rewritten
from extractor.importers.runs.files.modules import SCORERS, Modules
from extractor.importers.runs.files.needed import (
    loaded_by,
    needed_part,
    unused,
    with_first,
    without_imports,
    without_lost,
)
from extractor.importers.runs.files.packages import package_of, required_modules
from extractor.importers.runs.files.places import Places
from extractor.pipeline.index import Module
from extractor.pipeline.source import Source
from extractor.values.modules import module_name
from extractor.values.tree import FileKind, Tree

FOLDER = "from_run"
# More files of verl than this, its scorers aside, are no helpers of a function any more.
_MOST = 40
_TOO_MANY = f"more than {_MOST} modules hang on it"
# Where verl has the classes that its configs are made of.
_CONFIGS = ("verl.workers.config", "verl.trainer.config")
# What transformers 5, which a project requires, has under another name.
_RENAMED = {("transformers", "AutoModelForVision2Seq"): "AutoModelForImageTextToText"}
_NOWHERE = "no project has it"
_NO_PROJECT_HAS = ("ray", "megatron", "mbridge", "vllm", "sglang")
# Where files lie that copies open above their own folders, as they lie in the checkout.
_CHECKOUT = "checkout"


class Copying:
    """Copies files into a package, and gathers what these import.

    Args:
        package: The project's.
        tree: The project's files, with the modules of verl that it has.
        source: verl, of the run's release.
        places: Where the run may have been started from: its modules are found there.
    """

    def __init__(self, package: str, tree: Tree, source: Source, places: Places) -> None:
        self._package = package
        self._source = source
        self._modules = Modules(source, places)
        self._vendored = dict(_vendored(tree, package))
        self._required = required_modules(tree)
        # What was copied into the project before, for something else.
        self._copies = {file.path: file for file in tree if file.path.startswith(f"{package}/custom/{FOLDER}/")}
        self._gathered = self._before = Gathered()
        # Why names of a module cannot be had, of the file that is being copied.
        self._problems: dict[tuple[str, frozenset[str]], str] = {}
        # Modules that others take from what they themselves only import.
        self._handing_on: set[str] = set()
        self._own_of_verl: str | None = None
        # What the file asked for is called as a module.
        self._itself = ""
        # What the file at hand takes from each module.
        self._together: dict[str, set[str]] = {}

    @property
    def files(self) -> dict[str, str]:
        """Return what has been gathered besides the files asked for, by path below the package."""
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
            version_of: The path upstream of which it is a version, or that it has in the checkout's verl: of such a
                file only what the roots need is copied, and what the project has of it stays the project's.

        Raises:
            SyntaxError: it is no Python.
        """
        self._own_of_verl = own
        self._gathered.packages.clear()
        self._gathered.absent.clear()
        self._problems.clear()
        self._before = self._gathered.copy()
        text = contents.as_a_copy(text)
        if version_of is not None:
            text = needed_part(text, roots, self._of_project(text, version_of))
        self._itself = "" if place is None else self._modules.name_of(place)
        if place is not None:
            self._modules.look_beside(place, text)
        text = self._without_unused(text, self._itself, is_package=False, roots=roots)
        text, left_out = self._without_unavailable(text, roots)
        if left_out:  # what only they need was gathered for nothing
            self.undo()
        text, missing = self._redirected(text, "", is_package=False)
        text = self._as_it_lay(text, place, "custom", is_renamed=True)
        gathered = self._gathered
        return Copied(
            text, tuple(missing), tuple(left_out), tuple(sorted(gathered.packages)), tuple(sorted(gathered.absent))
        )

    def undo(self) -> None:
        """Forget what the last copy has gathered: it is of no use."""
        self._gathered = self._before.copy()

    def _of_project(self, text: str, path: str) -> dict[str, str]:
        """Return the definitions of a module's text that are the project's own, with the module that has each.

        These are what is as the project has it, and what registers under a name: a copy would fill its own registry.
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
            if name in found or name in registries or contents.prints(theirs, name) == contents.prints(known, name)
        }
        users = {name: loaded_by(theirs, theirs.bindings[name]) & theirs.bindings.keys() for name in same}
        changed = True
        while changed:  # what needs something that is not the same is not the same either
            others = {name for name in same if not users[name] <= same and name not in found}
            changed = bool(others)
            same -= others
        return found | dict.fromkeys(same, place)

    def _without_unused(self, text: str, module: str, *, is_package: bool, roots: Collection[str] = ()) -> str:
        """Leave out what a module imports and does not use, packages and what drags them in: nobody needs to have it.

        What is imported to register something stays, and so does what a package hands on.
        """
        idle = unused(text).difference(roots)
        names = contents.top_names(text, module, is_package=is_package) if idle else ()
        left = {name.local for name in names if name.local in idle and self._is_idle(name, inside=is_package)}
        return without_imports(text, left) if left else text

    def _is_idle(self, name: Name, *, inside: bool) -> bool:
        """Tell whether nothing happens where a name is imported: it is of a package, or of a module that only defines.

        Args:
            name: As it is imported.
            inside: Whether a package's own module imports it.
        """
        if self._is_package(name.module.partition(".")[0]):
            return True
        is_module = name.name is None or self._modules.file_of(f"{name.module}.{name.name}") is not None
        text, _ = self._modules.text_of(name.module) or ("", False)
        return not (inside or is_module or name.name == "*") and bool(text) and "register" not in text

    def _is_package(self, root: str) -> bool:
        """Tell whether a module's first name is of something that a project does not require."""
        if root in ("verl", self._package) or root in sys.stdlib_module_names or root in self._required:
            return False
        return self._modules.file_of(root) is None and not self._modules.is_folder(root)

    def _redirected(self, text: str, module: str, *, is_package: bool) -> tuple[str, list[str]]:
        """Return a module's text with its imports redirected, and what it needs and cannot have."""
        missing: list[str] = []
        before, self._together = self._together, _by_module(text, module or self._itself, is_package=is_package)
        attributes, inherited, tried = contents.attributes(text), contents.inherited(text), contents.tried(text)
        if module:
            missing += islice(self._of_no_project(text, module, attributes, is_package=is_package), 1)

        def moved(name: Name) -> tuple[str, str | None] | None:
            if missing and module:  # it cannot be had, whatever else it imports
                return None
            used = attributes.get(name.local, ())
            place = self._place(name, used, module.startswith("verl."), inherited.get(name.local, ()))
            if isinstance(place, str) and _scores(module) and in_process.has(name.module, name.name, used):
                place = self._in_process(name)
            if isinstance(place, str):
                if name.needed:
                    missing.append(place)
                elif name.local not in tried and not place.startswith(_NO_PROJECT_HAS):
                    self._gathered.absent.add(place)
                return None
            return self._of_before(place, text)

        text = rewritten(text, module or self._itself, moved, is_package=is_package)
        self._together = before
        return text, missing

    def _of_before(self, place: tuple[str, str | None] | None, text: str) -> tuple[str, str | None] | None:
        """Return where a name is: verl's dataset is another for a class that was written for an earlier one."""
        vendored, known = self._vendored.get(earlier_dataset.PATH, ("", None))
        if place != (vendored, earlier_dataset.NAME) or known is None or not earlier_dataset.is_told(known.source):
            return place
        if not earlier_dataset.extends(text):
            return place
        self.files[f"custom/{FOLDER}/{earlier_dataset.MODULE}.py"] = earlier_dataset.text(vendored)
        return self._new(earlier_dataset.MODULE), earlier_dataset.NAME

    def _of_no_project(
        self, text: str, module: str, attributes: Mapping[str, Collection[str]], *, is_package: bool
    ) -> Iterator[str]:
        """Yield what a module needs that no project has, before anything is looked for that it imports besides."""
        for name in contents.top_names(text, module, is_package=is_package):
            root = name.module.partition(".")[0]
            does_without = _scores(module) and in_process.has(name.module, name.name, attributes.get(name.local, ()))
            if root in _NO_PROJECT_HAS and not does_without:
                yield f"{root}: {_NOWHERE}"

    def _in_process(self, name: Name) -> tuple[str, str | None]:
        """Return where a name of Ray is in the module that has its names without it."""
        self.files[f"custom/{FOLDER}/{in_process.MODULE}.py"] = in_process.text()
        return self._new(in_process.MODULE), name.name

    def _place(
        self, name: Name, attributes: Collection[str], verls: bool, inherited: Collection[str] = ()
    ) -> tuple[str, str | None] | str | None:
        """Return where a name is in the project; why it is not there; or None where it stays as it is."""
        root = name.module.partition(".")[0]
        if root in _NO_PROJECT_HAS:
            return f"{root}: {_NOWHERE}"
        renamed = _RENAMED.get((name.module, name.name or ""))
        if renamed is not None:
            return name.module, renamed
        if root in sys.stdlib_module_names or root in self._required or root == self._package:
            return None
        if name.name == runtime_module.NAME and (
            root == runtime_module.PACKAGE or self._modules.is_copy_of_pyext(name.module)
        ):
            self.files[f"custom/{FOLDER}/{runtime_module.MODULE}.py"] = runtime_module.text()
            return self._new(runtime_module.MODULE), name.name
        if root == "verl":
            return self._of_verl(name, attributes, inherited)
        return self._own(name, root, verls, attributes)

    def _own(
        self, name: Name, root: str, verls: bool, attributes: Collection[str]
    ) -> tuple[str, str | None] | str | None:
        if self._is_package(root):
            if name.needed or not verls:
                full = name.module if name.name is None else f"{name.module}.{name.name}"
                self._gathered.packages.add(package_of(full))
            return None
        module, inner = name.module, name.name
        if inner is not None and self._modules.file_of(f"{module}.{inner}") is not None:
            module, inner = f"{module}.{inner}", None
        problem = self._take(module, attributes if inner is None else {inner}) or self._modules.lacks(module, inner)
        return problem or (self._new(module), inner)

    def _of_verl(
        self, name: Name, attributes: Collection[str], inherited: Collection[str]
    ) -> tuple[str, str | None] | str:
        module, inner = name.module, name.name
        if inner is not None and (
            f"{module}.{inner}" in self._modules.index or self._modules.file_of(f"{module}.{inner}") is not None
        ):
            module, inner = f"{module}.{inner}", None
        if inner is not None and inner != "*":
            module, inner = self._modules.defined(module, inner)
        if module == "verl":  # it reads files that lie beside it, and imports much that needs Ray
            return f"{module}{f'.{inner}' if inner else ''}: no project has the whole of verl"
        wanted = {inner} if inner is not None else set(attributes)
        if (place := self._of_config(module, inner)) is not None:
            return place, inner
        if any(self._modules.is_of_checkout(module, item) for item in wanted or (None,)):
            if self._modules.take_checkouts(module):
                self._gathered.taken.pop(module, None)
            problem = self._take(module, wanted) or self._modules.lacks(module, inner)
            return problem or (self._new(module), inner)
        if module not in self._modules.index:
            return f"{module}: this release of verl has no such module"
        path = self._modules.index[module].path
        is_own = self._own_of_verl is not None and module.startswith(self._own_of_verl)
        if not is_own and path in self._vendored and "*" not in wanted:
            place, known = self._vendored[path]
            # A project's class may be without methods that nothing in the project uses.
            gone = contents.methods(self._modules.index[module], inner) - contents.methods(known, inner)
            if wanted <= known.bindings.keys() and not gone & set(inherited):
                return place, inner
        problem = self._take(module, wanted)
        return problem or (self._new(module), inner)

    def _of_config(self, module: str, name: str | None) -> str | None:
        """Return the project's module with a class that configs are made of: what copies are given are its objects."""
        if name is None or not module.startswith(_CONFIGS):
            return None
        within = module.replace(".", "/")
        found = (known for path, known in self._vendored.items() if path.startswith((f"{within}.", f"{within}/")))
        return next((place for place, known in found if name in known.bindings), None)

    def _take(self, module: str, names: Collection[str]) -> str | None:
        """Copy a module, once, from which names are taken; says why it cannot be had.

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
        if module not in self._handing_on:
            text = self._without_unused(text, module, is_package=is_package)
        before = self._gathered.copy()
        missing = self._gather(module, text, is_package=is_package)
        if names and module not in self._handing_on and (missing or self._gathered.packages > before.packages):
            missing = self._gather_part(module, text, {*names, *(part or ())}, missing, before, is_package=is_package)
        if missing:  # what only it needs is gathered for nothing, and a package's own module would be imported
            self._gathered = before
            problem = f"{module}: it imports {missing[0]}"
            self._gathered.taken.setdefault(module, problem)
            if _TOO_MANY not in problem:  # that depends on what else was taken
                self._problems[asked] = problem
            return problem
        return None

    def _gather_part(
        self, module: str, text: str, names: set[str], missing: list[str], before: Gathered, *, is_package: bool
    ) -> list[str]:
        """Copy what names of a module need of it in the place of the whole, if that can be had or needs no package.

        Args:
            module, text, is_package: As `_gather` takes them.
            names: What is asked for.
            missing: What the whole needs and cannot have; it has been gathered.
            before: What had been gathered before the module was.
        """
        wanted = self._with_copied(module, text, names)
        less = needed_part(text, wanted, {})
        if less == text:
            return missing
        whole, self._gathered = self._gathered, before.copy()
        lacking = self._gather(module, less, is_package=is_package)
        if lacking or (not missing and self._gathered.packages == whole.packages):
            self._gathered = whole
            return missing
        self._gathered.parts[module] = wanted
        return []

    def _gather(self, module: str, text: str, *, is_package: bool) -> list[str]:
        """Copy a module's text, and the files that it opens where it lies; returns what it needs and cannot have."""
        self._gathered.taken[module] = None
        text, missing = self._redirected(text, module, is_package=is_package)
        if missing:
            return missing
        path = f"custom/{FOLDER}/{module.replace('.', '/')}"
        folder = path if is_package else path.rpartition("/")[0]
        is_released = module in self._modules.index and not self._modules.is_of_checkout(module, None)
        place = self._modules.index[module].path if is_released else self._modules.file_of(module)
        own = place if isinstance(place, Path) else None
        self.files[f"{path}/__init__.py" if is_package else f"{path}.py"] = self._as_it_lay(text, own, folder)
        held = beside.opened(text, place, self._source.files, self._modules.places.root)
        named = {posixpath.normpath(f"{folder}/{name}"): content for name, content in held}
        self.files.update({name: content for name, content in named.items() if name.startswith("custom/")})
        return []

    def _as_it_lay(self, text: str, place: Path | None, folder: str, *, is_renamed: bool = False) -> str:
        """Copy what a module's text opens above its own folder; returns the text, which finds it where it was copied.

        Args:
            text: The module's.
            place: Its file; None: it is none of the checkout.
            folder: That of its copy.
            is_renamed: Whether the copy lies elsewhere, so that what it opens beside itself is not there either.
        """
        root = self._modules.places.root
        if place is None or root is None or not place.resolve().is_relative_to(root.resolve()):
            return text
        above, held = beside.above(text, place, root), dict(beside.opened(text, place, {}, root))
        if not above and not (held and is_renamed):
            return text
        own = place.resolve().relative_to(root.resolve())
        beside_it = {posixpath.normpath(f"{own.parent.as_posix()}/{name}"): said for name, said in held.items()}
        files = {name: said for name, said in {**above, **beside_it}.items() if not name.startswith("..")}
        self.files.update({f"custom/{FOLDER}/{_CHECKOUT}/{name}": content for name, content in files.items()})
        here = f"_Path(__file__).parents[{folder.count('/')}]"
        lines = [
            "from pathlib import Path as _Path",
            "",
            "# It is where what it opens was copied to.",
            f'__file__ = str({here} / "{FOLDER}/{_CHECKOUT}/{own.as_posix()}")',
            "",
        ]
        return with_first(text, lines)

    def _with_copied(self, module: str, text: str, names: set[str]) -> set[str]:
        """Return names of a module, with those that its copy in the project has: one copy is for all."""
        copy = self._copies.get(f"{self._package}/custom/{FOLDER}/{module.replace('.', '/')}.py")
        if copy is None:
            return names
        known = Module(module, "", text).bindings.keys()
        return names | (known & Module(module, "", copy.data.decode()).bindings.keys())

    def _new(self, module: str) -> str:
        return f"{self._package}.custom.{FOLDER}.{module}"

    def _without_unavailable(self, text: str, roots: Collection[str]) -> tuple[str, list[str]]:
        """Leave out definitions that need what cannot be had, where nothing else needs them."""
        module = Module(self._itself or "file", "file.py", text)
        self._together = _by_module(text, module.name, is_package=False)
        lost = {
            name.local.partition(".")[0]
            for name in contents.top_names(text, module.name, is_package=False)
            if isinstance(self._place(name, (), False), str)
        }
        if not lost or not all(name in module.bindings for name in roots):
            return text, []
        return without_lost(text, module, (*roots, *contents.loaded_elsewhere(module)), lost)


def _by_module(text: str, module: str, *, is_package: bool) -> dict[str, set[str]]:
    """Return the names that a text takes from each module."""
    found: dict[str, set[str]] = {}
    for name in contents.top_names(text, module, is_package=is_package):
        if name.name not in (None, "*"):
            found.setdefault(name.module, set()).add(str(name.name))
    return found


def _scores(module: str) -> bool:
    """Tell whether a module may call Ray to score in parallel: the run's own, or one of verl's that score."""
    return not module.startswith("verl.") or module.startswith((SCORERS, "verl.workers.reward_manager"))


def _vendored(tree: Tree, package: str) -> Iterator[tuple[str, tuple[str, Module]]]:
    """Yield the path upstream of each module of verl in a project, its name there and what it is."""
    for file in tree:
        if file.kind is FileKind.VENDORED and file.upstream_path and file.path.endswith(".py"):
            name = module_name(file.path)
            yield file.upstream_path, (name, Module(name, file.path, file.data.decode()))
