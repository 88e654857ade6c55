"""Copies of the files that a run names, with what they import: the owner's own modules, and verl's."""

from __future__ import annotations

import ast
import posixpath
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from extractor.pipeline.index import Index, Module
from extractor.pipeline.index.syntax import attribute_chain
from extractor.pipeline.source import Source
from extractor.usecases.fromrun.files import beside, in_process, runtime_module
from extractor.usecases.fromrun.files.imports import Name, names_of, rewritten, statements
from extractor.usecases.fromrun.files.needed import (
    loaded_by,
    names_loaded,
    needed_part,
    unused,
    without_imports,
    without_statements,
)
from extractor.usecases.fromrun.files.packages import package_of, required_modules
from extractor.usecases.fromrun.files.places import Places
from extractor.values import readers
from extractor.values.fingerprint import fingerprint
from extractor.values.modules import module_name
from extractor.values.reachable import reachable
from extractor.values.tree import FileKind, Tree

FOLDER = "from_run"
# More files of verl than this, its scorers aside, are no helpers of a function any more.
_MOST = 40
# What scores a run's responses is the checkout's own, where it has it.
SCORERS = "verl.utils.reward_score"
_NO_PROJECT_HAS = ("ray", "megatron", "mbridge", "vllm", "sglang")


@dataclass(frozen=True)
class Copied:
    """A file of the run as the project has it.

    Attributes:
        text: With its imports redirected, without what cannot be had and nothing needs.
        missing: What it needs and cannot have, each with why.
        left_out: Definitions that were left out.
        packages: What it imports that a project does not require.
    """

    text: str = field(repr=False)
    missing: tuple[str, ...]
    left_out: tuple[str, ...]
    packages: tuple[str, ...]


class Copying:
    """Copies files into a package, and gathers what these import.

    Args:
        package: The project's.
        tree: The project's files, with the modules of verl that it has.
        source: verl, of the run's release.
        places: Where the run may have been started from: its modules are found there.

    Attributes:
        files: What has been gathered besides the files asked for, by path below the package.
    """

    def __init__(self, package: str, tree: Tree, source: Source, places: Places) -> None:
        self._package = package
        self._source = source
        self._index = Index(source)
        self._places = places
        self._vendored = dict(_vendored(tree, package))
        self._required = required_modules(tree)
        # Module -> why it cannot be had; None where it can.
        self._taken: dict[str, str | None] = {}
        self._before: tuple[dict[str, str | None], dict[str, str]] = ({}, {})
        self._packages: set[str] = set()
        # Modules that others take from what they themselves only import.
        self._handing_on: set[str] = set()
        self._own_of_verl: str | None = None
        # What the file asked for is called as a module.
        self._itself = ""
        self.files: dict[str, str] = {}

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
        self._packages = set()
        taken, files = self._before = dict(self._taken), dict(self.files)
        text = _without_launch(text, readers.python(text))
        if version_of is not None:
            text = needed_part(text, roots, self._of_project(text, version_of))
        self._itself = "" if place is None else self._module_of(place)
        text = self._without_unused(text, self._itself, is_package=False, roots=roots)
        text, left_out = self._without_unavailable(text, roots)
        if left_out:  # what only they need was gathered for nothing
            self._taken, self.files = dict(taken), dict(files)
            self._packages = set()
        text, missing = self._redirected(text, "", is_package=False)
        return Copied(text, tuple(missing), tuple(left_out), tuple(sorted(self._packages)))

    def undo(self) -> None:
        """Forget what the last copy has gathered: it is of no use."""
        self._taken, self.files = dict(self._before[0]), dict(self._before[1])

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
            if name in found or name in registries or _prints(theirs, name) == _prints(known, name)
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
        nodes = [node for node, needed in statements(readers.python(text)) if needed] if idle else []
        names = [name for node in nodes for name in names_of(node, module, is_package=is_package, needed=True)]
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
        is_module = name.name is None or self._file_of(f"{name.module}.{name.name}") is not None
        text, _ = self._text_of(name.module) or ("", False)
        return not (inside or is_module or name.name == "*") and bool(text) and "register" not in text

    def _is_package(self, root: str) -> bool:
        """Tell whether a module's first name is of something that a project does not require."""
        if root in ("verl", self._package) or root in sys.stdlib_module_names or root in self._required:
            return False
        return self._file_of(root) is None and not any((folder / root).is_dir() for folder in self._places.folders)

    def _redirected(self, text: str, module: str, *, is_package: bool) -> tuple[str, list[str]]:
        """Return a module's text with its imports redirected, and what it needs and cannot have."""
        missing: list[str] = []
        attributes, inherited = _attributes(text), _inherited(text)

        def moved(name: Name) -> tuple[str, str | None] | None:
            used = attributes.get(name.local, ())
            place = self._place(name, used, module.startswith("verl."), inherited.get(name.local, ()))
            if isinstance(place, str) and _scores(module) and in_process.has(name.module, name.name, used):
                place = self._in_process(name)
            if isinstance(place, str):
                if name.needed:
                    missing.append(place)
                return None
            return place

        return rewritten(text, module or self._itself, moved, is_package=is_package), missing

    def _module_of(self, file: Path) -> str:
        """Return what a file is called as a module, and look for others where its package is."""
        folder = file.resolve().parent
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        self._places = replace(self._places, folders=tuple(dict.fromkeys([*self._places.folders, folder])))
        return ".".join(file.resolve().with_suffix("").relative_to(folder).parts)

    def _in_process(self, name: Name) -> tuple[str, str | None]:
        """Return where a name of Ray is in the module that has its names without it."""
        self.files[f"custom/{FOLDER}/{in_process.MODULE}.py"] = in_process.TEXT
        return self._new(in_process.MODULE), name.name

    def _place(
        self, name: Name, attributes: Collection[str], verls: bool, inherited: Collection[str] = ()
    ) -> tuple[str, str | None] | str | None:
        """Return where a name is in the project; why it is not there; or None where it stays as it is."""
        root = name.module.partition(".")[0]
        if root in _NO_PROJECT_HAS:
            return f"{root}: no project has it"
        if root in sys.stdlib_module_names or root in self._required or root == self._package:
            return None
        if name.name == runtime_module.NAME and (root == runtime_module.PACKAGE or self._is_copy_of_pyext(name.module)):
            self.files[f"custom/{FOLDER}/{runtime_module.MODULE}.py"] = runtime_module.TEXT
            return self._new(runtime_module.MODULE), name.name
        if root == "verl":
            return self._of_verl(name, attributes, inherited)
        return self._own(name, root, verls)

    def _is_copy_of_pyext(self, module: str) -> bool:
        """Tell whether a module of the run's own is a copy of pyext, which Python 3.11 cannot import any more."""
        text, _ = self._text_of(module) or ("", False)
        return runtime_module.FORMER in text and runtime_module.NAME in text

    def _own(self, name: Name, root: str, verls: bool) -> tuple[str, str | None] | str | None:
        if self._is_package(root):
            if name.needed or not verls:
                self._packages.add(package_of(name.module if name.name is None else f"{name.module}.{name.name}"))
            return None
        module, inner = name.module, name.name
        if inner is not None and self._file_of(f"{module}.{inner}") is not None:
            module, inner = f"{module}.{inner}", None
        problem = self._take(module, inner) or self._lacks(module, inner)
        return problem or (self._new(module), inner)

    def _lacks(self, module: str, name: str | None) -> str | None:
        """Say that a module which has been taken has no such name; None where it may have it."""
        text, _ = self._text_of(module) or ("", False)
        known = Module(module, "", text)
        if name in (None, "*", *known.bindings, *known.imports) or "import *" in text or "__getattr__" in text:
            return None
        return f"{module}: it has no {name}"

    def _of_verl(
        self, name: Name, attributes: Collection[str], inherited: Collection[str]
    ) -> tuple[str, str | None] | str:
        module, inner = name.module, name.name
        if inner is not None and (f"{module}.{inner}" in self._index or self._file_of(f"{module}.{inner}") is not None):
            module, inner = f"{module}.{inner}", None
        if inner is not None and inner != "*":
            module, inner = self._defined(module, inner)
        if module == "verl":  # it reads files that lie beside it, and imports much that needs Ray
            return f"{module}{f'.{inner}' if inner else ''}: no project has the whole of verl"
        if self._is_of_checkout(module, inner):
            problem = self._take(module, inner) or self._lacks(module, inner)
            return problem or (self._new(module), inner)
        if module not in self._index:
            return f"{module}: this release of verl has no such module"
        path = self._index[module].path
        wanted = {inner} if inner is not None else set(attributes)
        is_own = self._own_of_verl is not None and module.startswith(self._own_of_verl)
        if not is_own and path in self._vendored and "*" not in wanted:
            place, known = self._vendored[path]
            # A project's class may be without methods that nothing in the project uses.
            gone = _methods(self._index[module], inner) - _methods(known, inner)
            if wanted <= known.bindings.keys() and not gone & set(inherited):
                return place, inner
        problem = self._take(module, inner)
        return problem or (self._new(module), inner)

    def _is_of_checkout(self, module: str, name: str | None) -> bool:
        """Tell whether the run's checkout has what its release has not: a module, a name in it, a scorer of its own."""
        file = self._file_of(module)
        if file is None or module not in self._index:
            return file is not None
        known = self._index[module]
        if module.startswith(SCORERS):
            return readers.read_text(file) != known.source
        return not (name in (None, "*") or name in known.bindings or name in known.imports)

    def _defined(self, module: str, name: str) -> tuple[str, str]:
        """Follow a name of verl through the modules that only hand it on."""
        for _ in range(5):
            if module not in self._index or name in self._index[module].bindings:
                break
            found = self._index[module].imports.get(name)
            if found is None or found.name is None or not found.module.startswith("verl"):
                break
            module, name = found.module, found.name
        return module, name

    def _take(self, module: str, name: str | None = None) -> str | None:
        """Copy a module, once, from which a name is taken; says why it cannot be had."""
        if name is not None and module not in self._handing_on and self._hands_on(module, name):
            self._handing_on.add(module)
            self._taken.pop(module, None)
        if module in self._taken:
            return self._taken[module]
        if sum(not name.startswith(SCORERS) for name in self._taken) >= _MOST:
            return f"{module}: more than {_MOST} modules hang on it"
        before = dict(self._taken), dict(self.files), set(self._packages)
        self._taken[module] = None
        found = self._text_of(module)
        if found is None:
            self._taken[module] = f"{module}: no such module"
            return self._taken[module]
        text, is_package = found
        text = text if module in self._handing_on else self._without_unused(text, module, is_package=is_package)
        text, missing = self._redirected(text, module, is_package=is_package)
        if missing:  # what only it needs is gathered for nothing, and a package's own module would be imported
            self._taken, self.files, self._packages = before
            self._taken[module] = f"{module}: it imports {missing[0]}"
            return self._taken[module]
        path = f"custom/{FOLDER}/{module.replace('.', '/')}"
        self.files[f"{path}/__init__.py" if is_package else f"{path}.py"] = text
        folder = path if is_package else path.rpartition("/")[0]
        is_released = module in self._index and not self._is_of_checkout(module, None)
        place = self._index[module].path if is_released else self._file_of(module)
        held = beside.opened(text, place, self._source.files, self._places.root)
        named = {posixpath.normpath(f"{folder}/{name}"): content for name, content in held}
        self.files.update({name: content for name, content in named.items() if name.startswith("custom/")})
        return None

    def _hands_on(self, module: str, name: str) -> bool:
        """Tell whether a module has a name, or any of all, only because it imports it."""
        text, _ = self._text_of(module) or ("", False)
        return name == "*" or name in Module(module, "", text).imports

    def _text_of(self, module: str) -> tuple[str, bool] | None:
        if module in self._index and not self._is_of_checkout(module, None):
            return self._index[module].source, self._index[module].is_package
        file = self._file_of(module)
        if file is None:
            is_folder = any((folder / module.replace(".", "/")).is_dir() for folder in self._places.folders)
            return ("", True) if is_folder else None
        text = readers.read_text(file)
        readers.python(text)
        return text, file.name == "__init__.py"

    def _file_of(self, module: str) -> Path | None:
        path = module.replace(".", "/")
        return self._places.find(f"{path}.py") or self._places.find(f"{path}/__init__.py")

    def _new(self, module: str) -> str:
        return f"{self._package}.custom.{FOLDER}.{module}"

    def _without_unavailable(self, text: str, roots: Collection[str]) -> tuple[str, list[str]]:
        """Leave out definitions that need what cannot be had, where nothing else needs them."""
        module = Module(self._itself or "file", "file.py", text)
        lost = {
            name.local.partition(".")[0] for name in _top_names(module) if isinstance(self._place(name, (), False), str)
        }
        if not lost or not all(name in module.bindings for name in roots):
            return text, []
        users = {name: loaded_by(module, indices) for name, indices in module.bindings.items()}
        starts = [name for name in (*roots, *_loaded_elsewhere(module)) if name in users]
        kept = reachable(starts, lambda name: users[name] & users.keys())
        out = {name for name, used in users.items() if used & lost and name not in kept}
        grown = True
        while grown:
            more = {name for name, used in users.items() if used & out and name not in kept} - out
            out |= more
            grown = bool(more)
        indices = {index for name in out for index in module.bindings[name]}
        left = without_statements(text, module, indices)
        used = names_loaded(readers.python(left))
        gone = names_loaded(readers.python(text)) | lost
        return without_imports(left, gone - used), sorted(out)


def _scores(module: str) -> bool:
    """Tell whether a module may call Ray to score in parallel: the run's own, or one of verl's that score."""
    return not module.startswith("verl.") or module.startswith((SCORERS, "verl.workers.reward_manager"))


def _vendored(tree: Tree, package: str) -> Iterator[tuple[str, tuple[str, Module]]]:
    """Yield the path upstream of each module of verl in a project, its name there and what it is."""
    for file in tree:
        if file.kind is FileKind.VENDORED and file.upstream_path and file.path.endswith(".py"):
            name = module_name(file.path)
            yield file.upstream_path, (name, Module(name, file.path, file.data.decode()))


def _prints(module: Module, name: str) -> list[str]:
    """Return what a name of a module is, up to what makes no difference."""
    return [fingerprint(module.statements[index].node) for index in module.bindings[name]]


def _methods(module: Module, cls: str | None) -> set[str]:
    """Return the methods of a class of a module; of anything else there are none."""
    nodes = [module.statements[index].node for index in module.bindings.get(cls or "", ())]
    bodies = [item for node in nodes if isinstance(node, ast.ClassDef) for item in node.body]
    return {item.name for item in bodies if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _inherited(text: str) -> dict[str, set[str]]:
    """Return what the classes of a module's text take of themselves, by what they extend: `x` of `self.x`."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(readers.python(text)):
        if isinstance(node, ast.ClassDef):
            used = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
            for base in node.bases:
                found.setdefault(ast.unparse(base), set()).update(used)
    return found


def _attributes(text: str) -> dict[str, set[str]]:
    """Return what a module's text takes from each name: `x` and `y` of `a.b.x` and `a.b.y`, by "a.b"."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(readers.python(text)):
        if isinstance(node, ast.Attribute):
            chain = attribute_chain(node.value)
            if chain:
                found.setdefault(".".join(chain), set()).add(node.attr)
    return found


def _top_names(module: Module) -> Iterator[Name]:
    for node, needed in statements(readers.python(module.source)):
        if needed:
            yield from names_of(node, module.name, is_package=False, needed=True)


def _loaded_elsewhere(module: Module) -> set[str]:
    """Return what the statements that define nothing use."""
    nodes = [statement.node for statement in module.statements if not statement.binds and not statement.imports]
    return set().union(*map(names_loaded, nodes))


def _without_launch(text: str, tree: ast.Module) -> str:
    """Leave out what a module does only as a program: `if __name__ == "__main__"`."""
    lines = text.split("\n")
    for node in reversed(tree.body):
        if isinstance(node, ast.If) and not node.orelse and "__name__" in names_loaded(node.test):
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines)
