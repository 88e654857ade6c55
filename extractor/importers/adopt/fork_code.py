"""Read a fork's modules and extract functions with their dependencies."""

import ast
import builtins
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from extractor.importers.adopt.differences import list_imports
from extractor.importers.adopt.findings import Copy
from extractor.importers.adopt.locate import read_files
from extractor.importers.adopt.target_project import NoPlace
from extractor.importers.python_text.definitions import read_config_defaults
from extractor.importers.python_text.module_imports import Name, list_names, replace_nodes, write_import
from extractor.importers.python_text.segments import Segment, decode, restore_upstream_names, split
from extractor.pipeline.index.syntax import find_global_names, list_bound_names, read_attribute_chain
from extractor.values import readers
from extractor.values.modules import is_package, name_module

_BUILTIN = frozenset(dir(builtins))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PROGRAM = re.compile(rb"-m\s+([\w.]+)")
_Cuts = list[tuple[ast.stmt | ast.expr, str]]


@dataclass(frozen=True)
class ForkModule:
    """One module of a fork; its name is below upstream's `verl` where it belongs to the copy."""

    name: str
    path: str
    segments: tuple[Segment, ...] = field(repr=False)

    @cached_property
    def by_name(self) -> dict[str, Segment]:
        """Return the segment that defines each name, without plain imports."""
        return {name: item for item in self.segments if not item.is_import for name in item.binds}

    @cached_property
    def imports(self) -> dict[str, Name]:
        return list_imports(self.segments, self.name, is_package=is_package(self.path))

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """Return the modules that it star-imports."""
        nodes = [item.node for item in self.segments if isinstance(item.node, ast.ImportFrom)]
        bound = [item for node in nodes for item in list_names(node, self.name, is_package=is_package(self.path))]
        return tuple(item.module for item in bound if item.name == "*")


class ForkCode:
    """The fork's Python modules, by dotted name.

    Args:
        copy: The copy of verl in it.
        upstreams: The text of upstream's configs.
    """

    def __init__(self, copy: Copy, upstreams: str = "") -> None:
        self._upstreams = upstreams
        self._paths: dict[str, tuple[str, bytes]] = {}
        self._prefixes = copy.prefixes
        self._read: dict[str, ForkModule | None] = {}
        self._programs: list[str] = []
        self._scripts: list[str] = []
        self._configs: list[str] = []
        self._values: dict[tuple[str, bool], list[str]] = {}
        root = copy.root.relative_to(copy.top).as_posix()
        inside = "" if root == "." else f"{root}/"
        beside = inside.rstrip("/").rpartition("/")[0]
        for path, data in read_files(copy.top):
            if path.endswith(".py"):
                short = path.removeprefix(f"{beside}/") if beside else path
                name = f"verl/{path.removeprefix(inside)}" if path.startswith(inside) else short
                self._paths.setdefault(name_module(name), (path, data))
                fields = read_config_defaults(data.decode(errors="replace")) if path.startswith(inside) else {}
                self._configs += [f"{key}: {value}" for key, value in fields.items()]
            elif path.endswith(".sh"):
                self._programs += [name.decode() for name in _PROGRAM.findall(data)]
                self._scripts.append(data.decode(errors="replace"))
            elif path.endswith((".yaml", ".yml")):
                self._configs.append(data.decode(errors="replace"))

    def find(self, name: str) -> ForkModule | None:
        """Return a module, or None if the fork lacks it."""
        if name not in self._read:
            path, data = self._paths.get(name, ("", b""))
            text = decode(data) if path else None
            try:
                segments = split(restore_upstream_names(text, self._prefixes)) if text is not None else None
            except SyntaxError:
                segments = None
            self._read[name] = None if segments is None else ForkModule(name, path, segments)
        return self._read[name]

    def texts(self, start: str) -> Iterator[tuple[str, bytes]]:
        """Yield name and bytes of modules whose name has the prefix."""
        return ((name, data) for name, (_, data) in self._paths.items() if name.startswith(start))

    def mentions(self, text: str) -> Iterator[ForkModule]:
        """Yield the modules whose source contains `text`."""
        for name, (_, data) in sorted(self._paths.items()):
            if text.encode() in data and (module := self.find(name)) is not None:
                yield module

    def list_callers(self, text: str) -> list[ForkModule]:
        """Return the modules that contain `text` and that another file names, those of launch scripts first."""
        found = [module for module in self.mentions(text) if self._is_named(module)]
        return sorted(found, key=self.count_uses, reverse=True)

    def _is_named(self, module: ForkModule) -> bool:
        word = module.name.rpartition(".")[2]
        others = any(word.encode() in data for path, data in self._paths.values() if path != module.path)
        return others or any(word in text for text in self._scripts)

    def is_used(self, name: str) -> bool:
        """Tell whether code names a function, other than where it is defined."""
        used = re.compile(rf"(?<!def )\b{re.escape(name)}\b".encode())
        return any(name.encode() in data and used.search(data) for _, data in self._paths.values())

    def has_elsewhere(self, module: str) -> bool:
        """Tell whether the fork has a dotted module in another package of its own."""
        ends = tuple(f"/{module.replace('.', '/')}{end}" for end in (".py", "/__init__.py"))
        return "." in module and any(f"/{path}".endswith(ends) for path, _ in self._paths.values())

    def is_set(self, key: str, *, in_code: bool = True) -> bool:
        """Tell whether a script, a config or code of the fork's sets a key, by its last name."""
        return bool(self._read_values(key, rf"\b{re.escape(key)}\b\s*[:=]", in_code=in_code))

    def is_off(self, section: str, key: str) -> bool:
        """Tell whether something sets a key of a section that only the fork has, and all that sets it turns it off."""
        start = rf"\b{re.escape(key)}\b(?::[ \t]*\w+[ \t]*=|[ \t]*[:=])"
        if key.startswith("enable"):  # which many sections have
            key, start = section, rf"\b{section}(?:\.|:[^\n]*\n(?:[ \t][^\n]*\n)*?[ \t]+){start[2:]}"
        values = self._read_values(key, rf"{start}[ \t]*([\w$\"'{{.=]+)")
        is_upstreams = re.search(rf"(?m)^[ \t]*{re.escape(key)}:", self._upstreams) is not None
        values = [value.strip("\"'").lower() for value in values]
        return bool(values) and not is_upstreams and set(values) <= {"false", "none", "null"}

    def _read_values(self, key: str, pattern: str, *, in_code: bool = True) -> list[str]:
        """Return what a pattern finds in the scripts, configs and maybe code that have a key."""
        asked = pattern, in_code
        if asked not in self._values:
            code = (data for _, data in self._paths.values() if in_code and key.encode() in data)
            texts = [*self.settings, *(data.decode(errors="replace") for data in code)]
            found = re.compile(pattern)
            self._values[asked] = [value for text in texts if key in text for value in found.findall(text)]
        return self._values[asked]

    def count_uses(self, module: ForkModule) -> int:
        """Return how often launch scripts run a program that imports a module."""
        programs = filter(None, map(self.find, self._programs))
        return sum(any(item.module == module.name for item in program.imports.values()) for program in programs)

    @property
    def program(self) -> str:
        """Return the program that most launch scripts run."""
        programs = [name for name in self._programs if self.find(name) is not None]
        return max(programs, key=programs.count, default="verl.trainer.main_ppo")

    def is_asked(self, name: str) -> bool:
        """Tell whether a launch script sets something to a name."""
        return any(re.search(rf"=[\"']?{re.escape(name)}\b", text) for text in self._scripts)

    @property
    def settings(self) -> list[str]:
        """Return the texts of all launch scripts and configs."""
        return [*self._scripts, *self._configs]

    def list_scripts(self, chosen: Collection[tuple[str, str]]) -> list[str]:
        """Return the launch scripts that choose a name by a setting, for any of the pairs of setting and name."""
        return [text for text in self._scripts if any(is_chosen(text, key, name) for key, name in chosen)]

    def resolve(self, item: Name) -> tuple[ForkModule, str | None] | None:
        """Follow an import to module and name; None outside the fork."""
        for _ in range(8):
            if item.name is None:
                module = self.find(item.module)
                return None if module is None else (module, None)
            whole, module = self.find(f"{item.module}.{item.name}"), self.find(item.module)
            if module is None or item.name not in module.by_name:
                if whole is not None:
                    return whole, None
                if module is None:
                    return None
                if item.name not in module.imports:
                    found = (self.resolve(replace(item, module=star)) for star in module.stars if star != item.module)
                    return next(filter(None, found), None)
                item = module.imports[item.name]
                continue
            return module, item.name
        return None


def is_chosen(script: str, key: str, name: str) -> bool:
    """Tell whether a launch script chooses a name by a setting, or by a variable called after it."""
    return re.search(rf"\w*{key}\w*[=:]\s*[\"']?(?:\$\{{\w+:-)?{re.escape(name)}\b", script, re.IGNORECASE) is not None


def find_calls(module: ForkModule, names: Collection[str]) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Yield calls of the named functions, each with its enclosing function."""
    for segment in module.segments:
        for around in ast.walk(segment.node) if segment.node is not None else ():
            if isinstance(around, _FUNCTIONS):
                for part in ast.walk(around):
                    if isinstance(part, ast.Call) and (read_attribute_chain(part.func) or ("",))[-1] in names:
                        yield part, around


class Closure:
    """Collects the definitions and imports that a function needs.

    Args:
        fork: The fork.
        project: What the project has under upstream's name: name -> the module of its package to import it from.
        package: The project's package.
        taken: Names that the text is to stand beside.
    """

    def __init__(self, fork: ForkCode, project: Mapping[str, str], package: str, taken: frozenset[str]) -> None:
        self._fork, self._project, self.package, self.taken = fork, project, package, taken
        self.imports: dict[str, str] = {}
        self.texts: dict[tuple[str, str], str] = {}
        self.outside: set[str] = set()
        self._names: dict[tuple[str, str], str] = {}

    def add(self, module: ForkModule, name: str) -> str:
        """Add a definition with what it needs; return its name."""
        key = (module.name, name)
        if key not in self._names:
            segment = module.by_name[name]
            self._names.update({(module.name, other): self._find_free_name(module, other) for other in segment.binds})
            self.texts[key] = ""  # what leads back here finds it
            self.texts[key] = self.rewrite(module, segment.core)
            self.texts[key] = self.texts.pop(key)  # behind what it needs
        return self._names[key]

    def _find_free_name(self, module: ForkModule, name: str) -> str:
        last = module.name.rpartition(".")[2]
        names = [name, f"{name}_of_{last}", *(f"{name}_of_{last}_{number}" for number in range(2, 99))]
        return next(item for item in names if item not in {*self.taken, *self._names.values(), *self.imports})

    def rewrite(self, module: ForkModule, text: str) -> str:
        """Return code adapted to the hook file; add its dependencies."""
        tree = readers.parse_python(text)
        bound, cuts = self._cut_imports(module, tree)
        removed = {id(part) for node, _ in cuts for part in ast.walk(node)}
        said = (getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns"))
        types = {id(part) for node in said if isinstance(node, ast.expr) for part in ast.walk(node)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inner = {name for name, item in bound.items() if item is not module.imports.get(name)}
            names = (find_global_names(text, "fork") | inner) - _BUILTIN
        names |= {node.id for node in ast.walk(tree) if id(node) in types and isinstance(node, ast.Name)} - _BUILTIN
        for node in ast.walk(tree):
            chain = read_attribute_chain(node) if isinstance(node, (ast.Name, ast.Attribute)) else ()
            if not isinstance(node, ast.expr) or not chain or id(node) in removed or chain[0] not in names:
                continue
            new, length = self._resolve_chain(module, bound, chain, is_type=id(node) in types)
            while len(chain) > length and isinstance(node, ast.Attribute):
                node, chain = node.value, chain[:-1]
            removed |= {id(part) for part in ast.walk(node)}
            if ".".join(chain) != new:
                cuts.append((node, new))
        for node in tree.body:
            for name in list_bound_names(node):
                if (renamed := self._names.get((module.name, name), name)) != name:
                    text = _rename(text, node, name, renamed, cuts)
        return replace_nodes(text, cuts)

    def _cut_imports(self, module: ForkModule, tree: ast.Module) -> tuple[dict[str, Name], _Cuts]:
        """Return what names are bound to, and the nodes to cut."""
        bound, cuts = dict(module.imports), _Cuts()
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                items = list(list_names(node, module.name, is_package=is_package(module.path)))
                if any(self._is_forks(item) for item in items):
                    bound.update({item.local: item for item in items})
                    cuts.append((node, "pass"))
                else:
                    self._note_packages(items)
            for decorator in getattr(node, "decorator_list", ()):
                chain = read_attribute_chain(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if chain and (chain[0] in module.by_name or (chain[0] in bound and self._is_forks(bound[chain[0]]))):
                    cuts.append((decorator, ""))
        return bound, cuts

    def _is_forks(self, item: Name) -> bool:
        return item.root == "verl" or self._fork.resolve(item) is not None

    def _resolve_chain(
        self, module: ForkModule, bound: Mapping[str, Name], chain: tuple[str, ...], *, is_type: bool
    ) -> tuple[str, int]:
        """Return the replacement for a name chain's start, and its length."""
        name = chain[0]
        if name in module.by_name and name not in bound:
            return self._add_own(module, name, is_type), 1
        item = bound.get(name)
        if item is None:
            if is_type and not name.startswith("__"):
                return self._import_any(), 1
            if module.stars:
                raise NoPlace(f"it needs {name}, which {module.path} does not define")
            return name, 1  # defined nowhere in the fork: where that is reached, the fork raises as well
        if not self._is_forks(item):
            self._note_packages([item])
            self.imports[item.local] = write_import((item.module, item.name), item.local, item.name)
            return name, 1
        found = self._fork.resolve(item)
        if found is None:
            return self._note_missing(f"{item.module}{f':{item.name}' if item.name else ''}", is_type), 1
        other, symbol = found
        if symbol is not None:
            return self._add_own(other, symbol, is_type), 1
        if len(chain) == 1:
            raise NoPlace(f"it uses the module {other.name} itself")
        if chain[1] in other.by_name:
            return self._add_own(other, chain[1], is_type), 2
        deeper = other.imports.get(chain[1])
        if deeper is not None:
            return self._resolve_chain(other, other.imports, chain[1:], is_type=is_type)[0], 2
        return self._note_missing(f"{other.name}:{chain[1]}", is_type), 2

    def _note_packages(self, items: Sequence[Name]) -> None:
        if elsewhere := next((item.module for item in items if self._fork.has_elsewhere(item.module)), None):
            raise NoPlace(f"it needs {elsewhere}, which is no part of your copy of verl")
        roots = {item.root for item in items}
        if "ray" in roots:
            raise NoPlace("it needs Ray")
        self.outside |= roots

    def _add_own(self, module: ForkModule, name: str, is_type: bool) -> str:
        """Add a fork's definition, or import the project's class instead."""
        segment = module.by_name[name]
        if name in self._project and (isinstance(segment.node, ast.ClassDef) or "REGISTRY" in name):
            where = self._project[name]
            self.imports[name] = f"from {self.package}.{where} import {name}"
            return name
        return self._import_any() if is_type else self.add(module, name)

    def _note_missing(self, what: str, is_type: bool) -> str:
        if is_type:
            return self._import_any()
        raise NoPlace(f"it needs {what}, which the fork does not have")

    def _import_any(self) -> str:
        self.imports["Any"] = "from typing import Any"
        return "Any"


def prune(text: str, name: str, branch: list[ast.stmt], chain: ast.If) -> str:
    """Return a renamed function with only one branch of an if, without comments."""
    function = readers.parse_python(text).body[0]
    assert isinstance(function, _FUNCTIONS)
    is_documented = ast.get_docstring(function) is not None
    place = next(place for place, node in enumerate(function.body) if node.lineno == chain.lineno)
    function.body = [*function.body[is_documented:place], *branch, *function.body[place + 1 :]]
    function.name, function.decorator_list = name, []
    return ast.unparse(function)


def _rename(text: str, node: ast.stmt, name: str, renamed: str, cuts: _Cuts) -> str:
    """Rename a definition in a text and shift cuts after it."""
    for cut, _ in cuts:
        if cut.lineno == node.lineno:
            cut.col_offset += len(renamed) - len(name)
            cut.end_col_offset = (cut.end_col_offset or 0) + (len(renamed) - len(name)) * (cut.end_lineno == cut.lineno)
    start = rf"^((?:async )?(?:def |class )|){re.escape(name)}\b"
    return re.sub(start, rf"\g<1>{renamed}", text, count=1, flags=re.MULTILINE)
