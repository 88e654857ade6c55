"""What does not fit together, where edits stand beside code that they were not made for.

A fork's caller may hand over an argument that only the fork's function takes, or take apart more values than the
project's returns; and so may the project's caller of a fork's function. A fork's code may read from a batch what only
the fork's trainer puts there.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from extractor.importers.adopt.differences import bound_by
from extractor.pipeline.index.batch_keys import OF_ROWS, keys_read, texts
from extractor.pipeline.index.syntax import attribute_chain
from extractor.values import readers
from extractor.values.modules import module_name

_Function = ast.FunctionDef | ast.AsyncFunctionDef
# What code names that has to do with batches, and their rows.
_OF_BATCHES = re.compile(rb"batch|DataProto|\brows?\b")


@dataclass(frozen=True)
class Disagreement:
    """One call.

    Attributes:
        caller: Module and top-level name of what calls.
        called: Those of the function.
        what: What does not fit, to follow "it".
        is_certain: False where it depends on what the caller has in `**arguments`.
    """

    caller: tuple[str, str]
    called: tuple[str, str]
    what: str
    is_certain: bool = True


@dataclass(frozen=True)
class _Facts:
    """What is looked at of a file.

    Attributes:
        functions: Those at its top, by name.
        imports: The import statements at its top.
        defined: Functions and classes at its top.
        calls: Top-level name, call of a name, and into how many names its value is taken apart.
        read: Top-level name and key of what is read from batches and a trainer makes.
        of_rows: The same of what the data may have as well.
        strings: All other strings.
        given: The strings that are keys of something that is written, or items of a list or the like.
        handed: The names of arguments that any of its calls hands over.
        passed: What its functions call the further arguments that they take, `**more`.
        of_self: Top-level name, and call of a method of the same object.
        replacing: Methods that take the place of another object's: `self.actor.forward = self.forward`.
    """

    functions: Mapping[str, _Function]
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    defined: frozenset[str]
    calls: tuple[tuple[str, ast.Call, int | None], ...]
    read: tuple[tuple[str, str], ...]
    of_rows: tuple[tuple[str, str], ...]
    strings: frozenset[str]
    given: frozenset[str]
    handed: frozenset[str]
    passed: frozenset[str]
    of_self: tuple[tuple[str, ast.Call], ...]
    replacing: Mapping[str, _Function]


@lru_cache(maxsize=2048)
def _facts(data: bytes) -> _Facts:
    body = readers.python(data).body
    defined = [node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    calls: list[tuple[str, ast.Call, int | None]] = []
    read: list[tuple[str, str]] = []
    of_rows: list[tuple[str, str]] = []
    strings: set[str] = set()
    given: set[str] = set()
    handed: set[str] = set()
    passed: set[str] = set()
    of_self: list[tuple[str, ast.Call]] = []
    replacing: dict[str, _Function] = {}
    has_batches = _OF_BATCHES.search(data) is not None
    for node in body:
        name, nodes = getattr(node, "name", ""), list(ast.walk(node))
        calls += [(name, call, targets) for call, targets in _calls(nodes)]
        handed.update(item.arg for item in nodes if isinstance(item, ast.keyword) and item.arg is not None)
        passed.update(item.kwarg.arg for item in nodes if isinstance(item, ast.arguments) and item.kwarg is not None)
        of_self += [(name, item) for item in nodes if isinstance(item, ast.Call) and _of_self(item.func)]
        replacing.update(_replacing(node, nodes))
        made, others = dict(keys_read(nodes)), dict(keys_read(nodes, OF_ROWS))
        read += [(name, key) for key in made.values()]
        of_rows += [(name, key) for key in others.values()]
        keys = made.keys() | others.keys() | _read_again(nodes, set(made.values()))
        constants = (item for item in nodes if isinstance(item, ast.Constant) and id(item) not in keys)
        strings.update(item.value for item in constants if isinstance(item.value, str))
        given.update(_given(nodes) if has_batches else ())
    return _Facts(
        {item.name: item for item in defined if not isinstance(item, ast.ClassDef) and _is_plain(item)},
        tuple(node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))),
        frozenset(item.name for item in defined),
        tuple(calls),
        tuple(read),
        tuple(of_rows),
        frozenset(strings),
        frozenset(given),
        frozenset(handed),
        frozenset(passed),
        tuple(of_self),
        replacing,
    )


def disagreements(files: Mapping[str, bytes]) -> Iterator[Disagreement]:
    """Yield the calls of functions at the top of a project's files that cannot work, or may not.

    Args:
        files: Each Python file, by its path in the project.
    """
    facts = {module_name(path): _facts(data) for path, data in files.items()}
    replacing = {name: (module, method) for module, file in facts.items() for name, method in file.replacing.items()}
    for path in files:
        module, file = module_name(path), facts[module_name(path)]
        for caller, call in file.of_self:
            home, method = replacing.get(attribute_chain(call.func)[1], (module, None))
            if method is not None and home != module and (what := _misfit(call, None, method, file)):
                yield Disagreement((module, caller), (home, method.name), what)
        names = _names(module, file, facts, is_package=path.endswith("__init__.py"))
        for caller, call, targets in file.calls:
            called = _called(call.func, names)
            function = facts[called[0]].functions.get(called[1]) if called is not None and called[0] in facts else None
            if called is None or function is None:
                continue
            if what := _misfit(call, targets, function, file):
                yield Disagreement((module, caller), called, what)
            elif function.args.kwarg is None and any(item.arg is None for item in call.keywords):
                what = f"hands more by name to {function.name}, which takes no further arguments"
                yield Disagreement((module, caller), called, what, is_certain=False)


def unfed(files: Mapping[str, bytes], *, of_rows: bool = False) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what reads a key of a batch that no code names otherwise: module and top-level name, and the key.

    Args:
        files: Each Python file, by its path in the project.
        of_rows: Of what the data may have, too, rather than of what only a trainer makes. Rows have no key by its being
            part of a metric's name, or read elsewhere.
    """
    facts = {module_name(path): _facts(data) for path, data in files.items()}
    known = frozenset().union(*(file.given if of_rows else file.strings for file in facts.values()))
    for module, file in facts.items():
        read = file.of_rows if of_rows else file.read
        yield from (((module, name), key) for name, key in read if key not in known)


def _read_again(nodes: Sequence[ast.AST], keys: Collection[str]) -> set[int]:
    """Return where code that reads keys of a batch reads them from something else: `model_inputs["key"]`."""
    read = [item.slice for item in nodes if isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Load)]
    return {id(item) for item in read if isinstance(item, ast.Constant) and item.value in keys}


def _given(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the strings by which code may put something somewhere."""
    for item in nodes:
        values: list[ast.expr | None] = []
        if isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Store):
            values = [item.slice]
        elif isinstance(item, ast.Dict):
            values = item.keys
        elif isinstance(item, (ast.List, ast.Set, ast.Tuple)):
            values = [*item.elts]
        elif isinstance(item, ast.Call) and ast.unparse(item.func).rpartition(".")[2] == "update":
            yield from (more.arg for more in item.keywords if more.arg is not None)
        yield from texts(values)


def _of_self(node: ast.expr) -> bool:
    chain = attribute_chain(node)
    return chain is not None and len(chain) == 2 and chain[0] == "self"


def _replacing(node: ast.stmt, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, _Function]]:
    """Yield the methods of a class that it puts in the place of another object's, as they are called: without self."""
    names = {
        item.value.attr
        for item in nodes
        if isinstance(item, ast.Assign)
        and isinstance(item.targets[0], ast.Attribute)
        and isinstance(item.value, ast.Attribute)
        and _of_self(item.value)
        and item.value.attr == item.targets[0].attr
    }
    for item in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(item, ast.FunctionDef) and item.name in names:
            bound = copy.copy(item)
            bound.args = copy.copy(item.args)
            bound.args.args = item.args.args[1:]
            yield item.name, bound


def _is_plain(function: _Function) -> bool:
    """Tell whether a function is called as it is written: decorators of upstream's that register it leave it so."""
    names = (item.func if isinstance(item, ast.Call) else item for item in function.decorator_list)
    return all(ast.unparse(name).rpartition(".")[2].startswith("register") for name in names)


def _names(module: str, file: _Facts, modules: Collection[str], *, is_package: bool) -> dict[str, tuple[str, str]]:
    """Return what a module's names stand for: a name in a module, or a module and an empty name."""
    found = {name: (module, name) for name in file.defined}
    for node in file.imports:
        for item in bound_by(node, module, is_package=is_package):
            inner = item.module if item.name is None else f"{item.module}.{item.name}"
            if not item.dotted:
                is_module = item.name is None or inner in modules
                found[item.local] = (inner, "") if is_module else (item.module, item.name or "")
    return found


def _calls(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Call, int | None]]:
    """Yield each call of plain names, and into how many names its value is taken apart."""
    apart = {
        id(item.value): len(item.targets[0].elts)
        for item in nodes
        if isinstance(item, ast.Assign)
        and isinstance(item.targets[0], ast.Tuple)
        and not any(isinstance(target, ast.Starred) for target in item.targets[0].elts)
    }
    own = {(item.arg,) for item in nodes if isinstance(item, ast.arg)}
    own |= {(item.id,) for item in nodes if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    for item in nodes:
        if isinstance(item, ast.Call) and attribute_chain(item.func)[:1] not in own:
            yield item, apart.get(id(item))


def _called(node: ast.expr, names: Mapping[str, tuple[str, str]]) -> tuple[str, str] | None:
    """Return the module and the name of what is called by its name, or as a member of a module."""
    first, *rest = attribute_chain(node) or ("",)
    module, name = names.get(first, ("", ""))
    path = [part for part in (name, *rest) if part]
    return (module, path[0]) if module and len(path) == 1 else None


def _misfit(call: ast.Call, targets: int | None, function: _Function, file: _Facts) -> str:
    """Say what does not fit; nothing where all does, or cannot be told.

    Args:
        call: Of the function.
        targets: Into how many names its value is taken apart.
        function: What is called.
        file: The caller's. What it has a name for may be among what it hands over as `**arguments`.
    """
    taken = function.args
    named = {item.arg for item in (*taken.args, *taken.kwonlyargs)}
    given = [item.arg for item in call.keywords if item.arg is not None and item.arg not in named]
    if given and taken.kwarg is None:
        return f"hands {', '.join(given)} to {function.name}, which does not take it"
    if len(call.args) > len(taken.posonlyargs) + len(taken.args) and taken.vararg is None:
        return f"hands {len(call.args)} arguments to {function.name}, which does not take so many"
    if missing := _missing(call, function, file):
        return f"does not hand {', '.join(missing)} to {function.name}, which needs it"
    returned = {_length(item) for item in _returns(function)}
    if targets is not None and len(returned) == 1 and returned - {targets, None}:
        return f"takes {targets} values from {function.name}, which returns {returned.pop()}"
    return ""


def _missing(call: ast.Call, function: _Function, file: _Facts) -> list[str]:
    """Return the arguments that a function needs and a call does not hand over."""
    more = [ast.unparse(item.value) for item in call.keywords if item.arg is None]
    if any(isinstance(item, ast.Starred) for item in call.args) or not file.passed.isdisjoint(more):
        return []
    places = [*function.args.posonlyargs, *function.args.args]
    needed = places[len(call.args) : len(places) - len(function.args.defaults)]
    only = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    needed += [item for item, default in only if default is None]
    given = {*(item.arg for item in call.keywords), *(item.arg for item in places[: len(call.args)])}
    given |= file.strings | file.handed if more else set()
    names = dict.fromkeys([*(item.arg for item in needed), *(() if more else _used_as_given(function))])
    return [name for name in names if name not in given]


@lru_cache(maxsize=1024)
def _used_as_given(function: _Function) -> tuple[str, ...]:
    """Return the arguments that are None by default and whose members are used all the same, without a look at them."""
    taken = function.args
    last = [*taken.posonlyargs, *taken.args][len(taken.posonlyargs) + len(taken.args) - len(taken.defaults) :]
    pairs = [*zip(last, taken.defaults, strict=True), *zip(taken.kwonlyargs, taken.kw_defaults, strict=True)]
    empty = [item.arg for item, default in pairs if isinstance(default, ast.Constant) and default.value is None]
    if not empty:
        return ()
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    tests = [node.test for node in nodes if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert))]
    tests += [node for node in nodes if isinstance(node, (ast.BoolOp, ast.Compare))]
    seen = {item.id for test in tests for item in ast.walk(test) if isinstance(item, ast.Name)}
    seen |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    used = {node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    return tuple(name for name in empty if name in used - seen)


def _returns(function: _Function) -> Iterator[ast.Return]:
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            pending += ast.iter_child_nodes(node)


def _length(node: ast.Return) -> int | None:
    """Return how many values a statement returns; None where it cannot be told."""
    whole = isinstance(node.value, ast.Tuple) and not any(isinstance(item, ast.Starred) for item in node.value.elts)
    return len(node.value.elts) if whole and isinstance(node.value, ast.Tuple) else None
