"""What the names of a training script stand for: values, options, arguments of its functions, open files."""

from __future__ import annotations

import ast
import contextlib
import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from extractor.usecases.fromrun.files import Places
from extractor.values import readers
from extractor.values.configtree import compose, resolve
from extractor.values.errors import UsageError

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What stands for nothing that is known.
_NOTHING = ast.Name("", ast.Load())
# A folder with more files is no folder of configs.
_MOST_FILES = 200


@dataclass(frozen=True)
class Known:
    """Holds what a script's names stand for.

    Attributes:
        constants: Those that get a value once, with it.
        options: Those of its command line, with their defaults; None: an option without one.
        given: What its command line says.
        functions: Those that it defines at its top.
        there: What names stand for at one place, by the nodes' ids: open files, what is of a function alone.
        by_hydra: Those of these that are a config of Hydra's.
        last: The line in which it first makes a trainer.
        path: Of the script.
        places: Where it may have been started from; None: nowhere.
        files: Config files that were read, as the script names them.
    """

    constants: Mapping[str, ast.expr]
    options: Mapping[str, ast.expr | None]
    given: Mapping[str, Any]
    functions: Mapping[str, Function] = field(default_factory=dict)
    there: MutableMapping[int, ast.expr] = field(default_factory=dict)
    by_hydra: Mapping[int, ast.expr] = field(default_factory=dict)
    last: float = math.inf
    path: Path | None = None
    places: Places | None = None
    files: set[str] = field(default_factory=set)


def known_of(tree: ast.Module, path: Path, given: Mapping[str, Any]) -> Known:
    """Return what a script's names stand for.

    Args:
        tree: The script.
        path: Of the script.
        given: What its command line says.
    """
    last = _trains_in(tree)
    functions = {node.name: node for node in tree.body if isinstance(node, _FUNCTIONS)}
    places = Places.of(path, None) if path.is_file() else None
    by_hydra = dict(_by_hydra(tree, path, places))
    there = {**dict(scoped(tree, last)), **by_hydra}
    once = constants(tree, last)
    return Known(once, dict(options(tree)), given, functions, there, by_hydra, last, path, places)


def where_reached(tree: ast.Module, known: Known, without: Container[int]) -> Known:
    """Return what names stand for where a script goes.

    Args:
        tree: The script.
        known: What they stand for if it went everywhere.
        without: The ids of nodes that are not reached.
    """
    there = {**dict(scoped(tree, known.last, without)), **known.by_hydra}
    return replace(known, constants=constants(tree, known.last, without), there=there)


def is_own(file: Path, places: Places | None) -> bool:
    """Tell whether a file lies in the script's repository: nothing else is read for it."""
    home = None if places is None else places.home
    return home is not None and file.resolve().is_relative_to(home.resolve())


def constants(tree: ast.AST, before: float = math.inf, without: Container[int] = ()) -> dict[str, ast.expr]:
    """Return the names that get a value once, with it.

    Args:
        tree: A script, or a part of it.
        before: A line. What gets another value below it has the one from above, as far as that goes.
        without: The ids of nodes that are not reached.
    """
    given: dict[str, ast.expr] = {}
    nodes = [node for node in ast.walk(tree) if id(node) not in without]
    names = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    bound, above = Counter(node.id for node in names), Counter(node.id for node in names if node.lineno < before)
    for node in nodes:
        for name, value in _assigned(node):
            if name not in given or node.lineno < before:  # type: ignore[attr-defined]
                given[name] = value
    return {name: value for name, value in given.items() if 1 in (bound[name], above[name])}


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that an assignment gives, with their values: also `one, other = 1, 2`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from (
                (one.id, other) for one, other in zip(target.elts, value.elts, strict=True) if isinstance(one, ast.Name)
            )
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value


def _trains_in(tree: ast.Module) -> float:
    """Return the line in which a script first makes a trainer."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return min((call.lineno for call in calls if name_of(call).endswith("Trainer")), default=math.inf)


def options(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the options of a script's command line, by argparse or as fields of dataclasses, with their defaults."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node) == "add_argument":
            flags = [item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            stated = {item.arg: item.value for item in node.keywords}
            default = stated.get("default")
            if default is None and isinstance(action := stated.get("action"), ast.Constant):
                default = ast.Constant(False) if action.value == "store_true" else None
            for flag in flags:
                yield flag.lstrip("-").replace("-", "_"), default
        elif isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(item) for item in node.decorator_list):
            for field_ in node.body:
                if isinstance(field_, ast.AnnAssign) and isinstance(field_.target, ast.Name):
                    yield field_.target.id, _default(field_.value)


def scoped(tree: ast.Module, last: float, without: Container[int] = ()) -> Iterator[tuple[int, ast.expr]]:
    """Yield where names are read that have a meaning of their own there, with what they stand for.

    These are the arguments of functions, with what they always get, and names that a function gives a value once; and
    open files.

    Args:
        tree: The script.
        last: The line in which it first makes a trainer.
        without: The ids of nodes that are not reached.
    """
    calls: dict[str, list[ast.Call]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            calls.setdefault(name_of(node), []).append(node)
    for function in _functions(tree):
        is_method = [item.arg for item in function.args.args[:1]] in (["self"], ["cls"])
        made = [call for call in calls.get(function.name, []) if is_method or isinstance(call.func, ast.Name)]
        bound = [bound_by(call, function, is_method) for call in made] or [bound_by(None, function)]
        values = {item.arg: _same(bound, item.arg) for item in _named(function)[is_method:]}
        if function.args.kwarg is not None and len(made) == 1:
            values[function.args.kwarg.arg] = _rest(made[0], function)
        yield from handed_to(function, values)
        once = {name: value for name, value in constants(function, last, without).items() if name not in values}
        yield from ((id(part), once[part.id]) for part in _names_in(function) if part.id in once)
    yield from _opened(tree)


def handed_to(function: Function, values: Mapping[str, ast.expr]) -> Iterator[tuple[int, ast.expr]]:
    """Yield where a function reads its arguments, with their values: one that it changes is none any more."""
    inside = _names_in(function)
    changed = {part.id for part in inside if isinstance(part.ctx, ast.Store)}
    yield from ((id(part), values[part.id]) for part in inside if part.id in values.keys() - changed)


def result_of(function: Function) -> ast.expr | None:
    """Return what a function gives, whatever happens in it; None where that depends on something."""
    results = [node for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    last = function.body[-1]
    while isinstance(last, ast.With):
        last = last.body[-1]
    return last.value if isinstance(last, ast.Return) and results == [last] else None


def _same(bound: Sequence[Mapping[str, ast.expr]], name: str) -> ast.expr:
    """Return what an argument gets by all calls; a name for nothing where these differ."""
    values = [given[name] for given in bound if name in given]
    texts = {ast.unparse(value) for value in values}
    return values[0] if len(values) == len(bound) and len(texts) == 1 else _NOTHING


def _rest(call: ast.Call, function: Function) -> ast.Dict:
    """Return what a call hands to `**settings` of a function."""
    named = {item.arg for item in _named(function)}
    more = [item for item in call.keywords if item.arg not in named]
    return ast.Dict([ast.Constant(item.arg) if item.arg else None for item in more], [item.value for item in more])


def bound_by(call: ast.Call | None, function: Function, is_method: bool = False) -> dict[str, ast.expr]:
    """Return what a function's arguments get of a call, or by default; without those that are not known."""
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args)][is_method:]
    found = dict(zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True))
    found |= {item.arg: value for item, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value}
    if call is not None:
        is_starred = any(isinstance(item, ast.Starred) for item in call.args)
        if is_starred or any(item.arg is None for item in call.keywords):  # what these hand over may be any of them
            found = {}
        if is_starred:
            names = []
        found |= dict(zip(names, call.args, strict=False))
        found |= {item.arg: item.value for item in call.keywords if item.arg}
    return found


def _named(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))


def _names_in(function: Function) -> list[ast.Name]:
    return [part for statement in function.body for part in ast.walk(statement) if isinstance(part, ast.Name)]


def _by_hydra(tree: ast.Module, path: Path, places: Places | None) -> Iterator[tuple[int, ast.expr]]:
    """Yield where the config is read that Hydra makes, `@hydra.main(config_path="conf", config_name="train")`."""
    for function in _functions(tree):
        for call in (item for item in function.decorator_list if isinstance(item, ast.Call)):
            said = {item.arg: item.value.value for item in call.keywords if isinstance(item.value, ast.Constant)}
            folder, name = said.get("config_path"), said.get("config_name")
            if ast.unparse(call.func) != "hydra.main" or not isinstance(folder, str) or not isinstance(name, str):
                continue
            with contextlib.suppress(OSError, UsageError, yaml.YAMLError, ValueError, LookupError):
                root = path.resolve().parent / folder
                found = [file for file in sorted(root.rglob("*.yaml"))[:_MOST_FILES] if is_own(file, places)]
                files = {file.relative_to(root).as_posix(): readers.read_text(file) for file in found}
                config = resolve(compose(files, f"{name.removesuffix('.yaml')}.yaml").config)
                whole: ast.expr = ast.Constant(config)  # type: ignore[arg-type]
                yield from handed_to(function, {item.arg: whole for item in _named(function)})


def name_of(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return ast.unparse(call.func).rpartition(".")[2]


def _default(node: ast.expr | None) -> ast.expr | None:
    """Return the default of a dataclass's field: itself, or what `field(default=...)` says."""
    if isinstance(node, ast.Call) and name_of(node) == "field":
        values = {item.arg: item.value for item in node.keywords}
        made = values.get("default_factory")
        return values.get("default", made.body if isinstance(made, ast.Lambda) else None)
    return node


def _opened(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """Yield where names of open files are read, with what opened them: `with open(path) as file`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.With):
            continue
        for item in node.items:
            if isinstance(item.optional_vars, ast.Name):
                inside = (part for statement in node.body for part in ast.walk(statement))
                for part in inside:
                    if isinstance(part, ast.Name) and part.id == item.optional_vars.id:
                        yield id(part), item.context_expr
