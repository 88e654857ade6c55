"""What calls in a training script give: of its own functions and classes, and of others."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from typing import Any

from extractor.importers.runs.python import commands, expressions, files, library, names, parsing, verls
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.states import Event
from extractor.importers.runs.python.syntax import ENDS, default_of, is_one_of, last_of, yields
from extractor.importers.runs.python.values import (
    Computed,
    Items,
    Made,
    Method,
    Outside,
    Own,
    OwnClass,
    Ref,
    Scope,
    Start,
    Stops,
)

# Start a function that they are given.
_STARTS = ("asyncio.run", "run_async", "anyio.run")
_DEEPEST = 40


def call(run: Run, node: ast.Call, scope: Scope) -> Any:
    """Return what a call gives.

    Raises:
        Stops: nothing goes on after it.
    """
    target = run.value_of(node.func, scope)
    given, is_whole = expressions.parts(node.args, scope, run)
    given = given if is_whole else []
    named = Items(is_whole=is_whole)
    for item in node.keywords:
        if item.arg is None:
            expressions.pour(named, item.value, scope, run)
        else:
            named.put(item.arg, run.value_of(item.value, scope), item.value)
    text = ast.unparse(node)
    if isinstance(target, Own) and commands.is_by_click(target):
        value = run.enter(target, [], commands.start(run, target), text)
    elif isinstance(target, Own):
        value = run.enter(target, given, named, text)
    elif isinstance(target, OwnClass):
        value = instance(run, target, given, named, node, scope)
    elif isinstance(target, Method):
        value = _by_method(run, target, given, named, node, scope)
    elif isinstance(target, Outside):
        value = _by_library(run, target.name, given, named, node, scope)
    else:
        value = _by_maker(run, run.state.of(target), given, named, node, scope)
    return value


def _by_maker(run: Run, maker: Any, given: list[Any], named: Items, node: ast.Call, scope: Scope) -> Any:
    """Return what something gives that a call has made: `ray.remote(num_cpus=1)(TaskRunner)`."""
    is_remote = isinstance(maker, Made) and maker.of.endswith("ray.remote")
    if is_remote and len(given) == 1 and isinstance(given[0], (Own, OwnClass)):
        return given[0]
    return _made(run, node, scope, given, named, ast.unparse(node.func))


def _by_library(run: Run, name: str, given: list[Any], named: Items, node: ast.Call, scope: Scope) -> Any:
    if name in ENDS:
        raise Stops
    if name in (*_STARTS, *commands.BY_TYPER, *commands.BY_FIRE) and given:
        first = given[0]
        by = next((group for group in (commands.BY_TYPER, commands.BY_FIRE) if name in group), ())
        return run.enter(first, [], commands.start(run, first, by), name) if isinstance(first, Own) else first
    if name == "setattr" and len(given) == 3 and isinstance(given[1], str) and not isinstance(given[1], Computed):
        names.set_attribute(run, given[0], given[1], given[2], node.args[2])
        return None
    if name == "super" and not given:
        return Method(run.looked_up("self", scope), "super")
    if (parsed := parsing.called(name, given, named, node, run)) is not None:
        return parsed
    value = verls.called(name, given, named, run) if run.opens else library.NOT_HERE
    if value is library.NOT_HERE:
        value = library.called(name, given, named, run)
    if value is library.NOT_HERE:
        value = library.may_be_read(name.rpartition(".")[2], given, run)
    if value is not library.NOT_HERE:
        return value
    if hasattr(builtins, name) and name not in ("open",):
        raise expressions.Unknown
    return _made(run, node, scope, given, named, name)


def _by_method(run: Run, target: Method, given: list[Any], named: Items, node: ast.Call, scope: Scope) -> Any:
    if (parsed := parsing.by_method(target, given, named, node, run)) is not None:
        return parsed
    owner = target.owner
    if isinstance(owner, Method) and owner.name == "super":
        return _by_super(run, owner.owner, target.name, given, named, node, scope)
    value = library.method(owner, target.name, given, named, run)
    if value is not library.NOT_HERE:
        return value
    return _made(run, node, scope, given, named, ast.unparse(node.func), owner)


def _by_super(run: Run, owner: Any, name: str, given: list[Any], named: Items, node: ast.Call, scope: Scope) -> Any:
    found = run.state.of(owner)
    if not isinstance(found, Made) or found.kind is None:
        return None
    bases = [base for base in found.kind.bases if isinstance(base, OwnClass)]
    inside = [value for base in bases if isinstance(value := names.in_class(run, base, name), Own)]
    if inside:
        return run.enter(Own(inside[0].node, inside[0].scope, owner), given, named, ast.unparse(node))
    return None


def _made(
    run: Run, node: ast.Call, scope: Scope, given: Sequence[Any], named: Items, name: str, owner: Any = None
) -> Ref:
    """Return what a call of something that is not here gives, and note it if it is asked for."""
    made = Made(name, tuple(given), named, node, owner=owner)
    return _noted(run, made, node, name, scope) if is_one_of(last_of(name), run.noted) else run.new(made)


def _noted(run: Run, made: Made, node: ast.Call, of: str, scope: Scope) -> Ref:
    """Return a new object, and note that it was made."""
    ref = run.new(made)
    run.events.append(Event(made, node, of, scope, run.state.copy(), ref))
    return ref


def base_of(run: Run, kind: OwnClass) -> str | None:
    """Return the class of a library's that one of the script's comes from; None: it comes from none."""
    for base in kind.bases:
        found = run.base_of(base) if isinstance(base, OwnClass) else None
        if found is None and not isinstance(base, OwnClass):
            found = base.name if isinstance(base, Outside) else str(base)
        if found is not None:
            return found
    return None


def instance(run: Run, kind: OwnClass, given: list[Any], named: Items, node: ast.Call, scope: Scope) -> Any:
    """Return an instance of one of the script's classes; of a library's of which it has made another class, note it."""
    base, name = run.base_of(kind), kind.node.name
    noted = [item for item in run.noted if name.endswith(item) or (base or "").endswith(item)]
    maker = names.in_class(run, kind, "__init__")
    if not noted and isinstance(maker, Own):
        ref = run.new(Made(name, (), Items(), node, kind))
        run.made_by[ref] = (kind, tuple(given), named)
        run.enter(Own(maker.node, maker.scope, ref), given, named, ast.unparse(node))
        return ref
    fields = run.fields(kind)
    if noted and base is not None:
        made = Made(name, tuple(given), named, node, kind, defaults=fields)
        of = name if name.endswith(noted[0]) else f"{name}:{noted[0]}"
        return _noted(run, made, node, of, scope)
    named.items = {**dict(zip(fields.items, given, strict=False)), **named.items}
    items, nodes = {**fields.items, **named.items}, {**fields.nodes, **named.nodes}
    ref = run.new(Made(name, (), Items(items, nodes, is_whole=named.is_whole), node, kind))
    run.made_by[ref] = (kind, (), named)
    later = names.in_class(run, kind, "__post_init__")
    if isinstance(later, Own):
        run.enter(Own(later.node, later.scope, ref), [], Items(), ast.unparse(node))
    return ref


def fields(run: Run, kind: OwnClass) -> Items:
    """Return the fields of a dataclass, with their defaults; one without a default is not known."""
    found = Items()
    for base in kind.bases:
        if isinstance(base, OwnClass):
            found.pour(run.fields(base))
    scope = kind.scope.inner(kind.frame)
    for item in kind.node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            default = default_of(item.value)
            value = Computed(item.target.id) if default is None else run.value_of(default, scope)
            found.put(item.target.id, value, default)
    return found


def enter(run: Run, function: Own, given: Sequence[Any], named: Items, text: str) -> Any:
    """Return what a function of the script's gives, which is followed."""
    node = function.node
    if run.depth > _DEEPEST or yields(node):
        return Computed(text)
    frame = run.new(_bound(run, function, given, named))
    scope = function.scope.inner(frame.number)
    run.scopes[id(node)] = scope
    run.depth += 1
    depth = run.depth
    try:
        if isinstance(node, ast.Lambda):
            return run.value_of(node.body, scope)
        body = node.body
        results = [value for result in run.in_a_share(lambda: run.result_of(body, scope)) for value in result]
    finally:
        run.depth = depth - 1
    if not results:
        return Computed(text)
    if isinstance(results[0], Own) and frame.number in results[0].scope.frames:
        run.made_by[results[0]] = (function, tuple(given), named)
    return results[0]


def _bound(run: Run, function: Own, given: Sequence[Any], named: Items) -> Items:
    """Return a function's arguments."""
    arguments = function.node.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
    frame = Items(is_frame=True)
    first = [] if function.owner is None else [function.owner]
    defaults = dict(zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True))
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    defaults |= {item.arg: value for item, value in keywords if value is not None}
    every = [*names, *(item.arg for item in arguments.kwonlyargs)]
    passed = {**dict(zip(names, [*first, *given], strict=False)), **named.items}
    config = _config_of(run, function) if every and every[0] not in passed else None
    if config is not None:
        passed[every[0]] = config
    for name in every:
        if name in passed:
            frame.items[name] = passed.pop(name)
            if name in named.nodes:
                frame.nodes[name] = named.nodes[name]
        elif not named.is_whole:
            frame.items[name] = Computed(name)
        elif name in run.given and isinstance(named, Start):
            frame.items[name] = run.entered(run.given[name])
        elif name in defaults:
            frame.items[name] = run.value_of(defaults[name], function.scope)
            frame.nodes[name] = defaults[name]
        else:
            frame.items[name] = Computed(name)
    if arguments.vararg is not None:
        frame.items[arguments.vararg.arg] = tuple(given[max(len(names) - len(first), 0) :])
    if arguments.kwarg is not None:
        more = {name: value for name, value in passed.items() if name not in every}
        nodes = {name: item for name, item in named.nodes.items() if name in more}
        frame.items[arguments.kwarg.arg] = run.new(Items(more, nodes, is_whole=named.is_whole))
    return frame


def _config_of(run: Run, function: Own) -> Any:
    """Return the config that Hydra makes for a function; None where it makes none, or that is not known."""
    if run.opens:
        return verls.by_hydra(function.node, run)
    try:
        config = files.by_hydra(function.node, function.scope.path, run.places, run.words or ())
    except ValueError:
        return None
    return None if config is None else run.entered(config, "OmegaConf.create")
