"""What does not fit together, where edits stand beside code that they were not made for.

A fork's version of a function may lack an argument that the project hands over, since upstream gave it one after the
copy was made; and a fork's caller may hand over an argument that only the fork's function takes.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from textwrap import dedent

from extractor.importers.adopt.differences import list_bound
from extractor.pipeline.index.syntax import attribute_chain
from extractor.values import readers
from extractor.values.modules import module_name

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Imports = tuple[ast.Import | ast.ImportFrom, ...]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Place = tuple[str, str]


def list_lacking(ours: ast.stmt | None, theirs: str) -> list[str]:
    """Return arguments, methods and members that only the project's version has, in its order.

    Args:
        ours: The project's.
        theirs: The text that is to stand in its place.
    """
    nodes = readers.python(dedent(theirs)).body
    node = next((item for item in nodes if getattr(item, "name", None) == getattr(ours, "name", "")), None)
    if isinstance(ours, _FUNCTIONS) and isinstance(node, _FUNCTIONS):
        return _lacking_arguments(ours, node)
    if not isinstance(ours, ast.ClassDef) or not isinstance(node, ast.ClassDef):
        return []
    own, other = _public_members(ours), _public_members(node)
    found = [f"{ours.name}.{name}" for name in own if name not in other]
    for name, member in own.items():
        there = other.get(name)
        if isinstance(member, _FUNCTIONS) and isinstance(there, _FUNCTIONS):
            found += [f"{argument} of {ours.name}.{name}" for argument in _lacking_arguments(member, there)]
    return found


def list_extra_arguments(theirs: ast.stmt | None, ours: ast.stmt | None) -> list[tuple[str, str]]:
    """Return the arguments that only the fork's methods of a class take, each with its method."""
    if not isinstance(theirs, ast.ClassDef) or not isinstance(ours, ast.ClassDef):
        return []
    own = _public_members(ours)
    return [
        (argument, name)
        for name, member in _public_members(theirs).items()
        if isinstance(member, _FUNCTIONS) and isinstance(there := own.get(name), _FUNCTIONS)
        for argument in _lacking_arguments(member, there)
    ]


def _lacking_arguments(ours: _Function, theirs: _Function) -> list[str]:
    """Return the arguments that a function does not take, where it does not take any."""
    if theirs.args.kwarg is not None:
        return []
    taken = {item.arg for item in _arguments(theirs)}
    return [item.arg for item in _arguments(ours) if item.arg not in taken]


def _arguments(function: _Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _public_members(cls: ast.ClassDef) -> dict[str, ast.stmt]:
    """Return what a class defines in its body."""
    found: dict[str, ast.stmt] = {}
    for node in cls.body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({target.id: node for target in targets if isinstance(target, ast.Name)})
    return {name: node for name, node in found.items() if not name.startswith("_") or name.endswith("__")}


@dataclass(frozen=True)
class Mismatch:
    """A call that its function does not take.

    Attributes:
        caller: Module and top-level name of what calls.
        called: Those of the function.
        what: What does not fit, to follow "it".
    """

    caller: _Place
    called: _Place
    what: str


@dataclass(frozen=True)
class _Module:
    """Holds a module's top-level functions and imports, and its calls with the top-level name around each."""

    functions: Mapping[str, _Function]
    imports: _Imports
    calls: tuple[tuple[str, ast.Call], ...]


@lru_cache(maxsize=2048)
def _module(data: bytes) -> _Module:
    body = readers.python(data).body
    return _Module(
        {node.name: node for node in body if isinstance(node, _FUNCTIONS) and _is_called_as_written(node)},
        tuple(node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))),
        tuple((getattr(node, "name", ""), call) for node in body for call in _calls(list(ast.walk(node)))),
    )


def _is_called_as_written(function: _Function) -> bool:
    """Tell whether no decorator changes a function; those of upstream's that register it do not."""
    names = (item.func if isinstance(item, ast.Call) else item for item in function.decorator_list)
    return all(ast.unparse(name).rpartition(".")[2].startswith("register") for name in names)


def _calls(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    """Yield the calls of names that a statement does not bind itself."""
    own = {(item.arg,) for item in nodes if isinstance(item, ast.arg)}
    own |= {(item.id,) for item in nodes if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    for item in nodes:
        if isinstance(item, ast.Call) and attribute_chain(item.func)[:1] not in own:
            yield item


def find_mismatches(files: Mapping[str, bytes]) -> Iterator[Mismatch]:
    """Yield the calls of top-level functions of a project that cannot work.

    Args:
        files: Each Python file, by its path in the project.
    """
    modules = {module_name(path): _module(data) for path, data in files.items()}
    for path in files:
        name = module_name(path)
        names = _names(name, modules[name], modules, is_package=path.endswith("__init__.py"))
        for caller, call in modules[name].calls:
            first, *rest = attribute_chain(call.func) or ("",)
            module, inner = names.get(first, ("", ""))
            chain = [part for part in (inner, *rest) if part]
            function = modules[module].functions.get(chain[0]) if module in modules and len(chain) == 1 else None
            if function is not None and (what := _misfit(call, function)):
                yield Mismatch((name, caller), (module, chain[0]), what)


def _names(name: str, module: _Module, modules: Collection[str], *, is_package: bool) -> dict[str, _Place]:
    """Return what a module's names stand for: a name in a module, or a module and an empty name."""
    found = {function: (name, function) for function in module.functions}
    for node in module.imports:
        for item in list_bound(node, name, is_package=is_package):
            inner = item.module if item.name is None else f"{item.module}.{item.name}"
            if not item.dotted:
                is_module = item.name is None or inner in modules
                found[item.local] = (inner, "") if is_module else (item.module, item.name or "")
    return found


def _misfit(call: ast.Call, function: _Function) -> str:
    """Say what a function does not take, or lacks; nothing where all fits, or cannot be told."""
    taken = function.args
    given = [item.arg for item in call.keywords if item.arg is not None]
    further = [name for name in given if name not in {item.arg for item in (*taken.args, *taken.kwonlyargs)}]
    if further and taken.kwarg is None:
        return f"hands {', '.join(further)} to {function.name}, which does not take it"
    places = [*taken.posonlyargs, *taken.args]
    if len(call.args) > len(places) and taken.vararg is None:
        return f"hands {len(call.args)} arguments to {function.name}, which does not take so many"
    if any(isinstance(item, ast.Starred) for item in call.args) or len(given) < len(call.keywords):
        return ""  # what `*arguments` and `**arguments` hold is not known
    needed = [item.arg for item in places[len(call.args) : len(places) - len(taken.defaults)]]
    needed += [item.arg for item, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if default is None]
    missing = [name for name in needed if name not in given]
    return f"does not hand {', '.join(missing)} to {function.name}, which needs it" if missing else ""
