"""What the statements of a training script do, as far as that can be said without running it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from extractor.importers.runs.python import imports, library, unentered
from extractor.importers.runs.python.expressions import is_true
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.states import State, Way, Ways, either, joined
from extractor.importers.runs.python.syntax import gives_up
from extractor.importers.runs.python.values import (
    Computed,
    Items,
    Listed,
    Own,
    OwnClass,
    Scope,
    Stops,
    TooLong,
)

# How a statement may end, besides going on.
_ON, _RETURNS, _BREAKS, _CONTINUES, _STOPS = "on", "returns", "breaks", "continues", "stops"
_SOMETIMES = "..."
# How often a loop is followed, and how much of a condition is shown.
_MOST_ROUNDS, _MOST_TEXT = 200, 200


def ends(run: Run, body: Iterable[ast.stmt], scope: Scope) -> Ways:
    """Follow statements; return the state that there is at the end of each way that they may take."""
    ended: Ways = {}
    for node in body:
        run.steps += 1
        if run.steps > run.limit:
            raise TooLong
        ways = _statement(run, node, scope)
        on = ways.pop(_ON, None)
        for way, end in ways.items():
            _add(ended, way, end)
        if on is None:
            return ended
        run.state = on[0]
    _add(ended, _ON, (run.state, None))
    return ended


def result_of(run: Run, body: Iterable[ast.stmt], scope: Scope) -> tuple[Any, ...]:
    """Follow a function; return what it gives, or nothing where it ends the script."""
    ways: Ways = run.ends(body, scope)
    ended: Ways = {}
    for way in (_RETURNS, _ON):
        if way in ways:
            _add(ended, _ON, ways[way])
    if not ended:
        run.state = next(iter(ways.values()))[0]
        return ()
    run.state, value = ended[_ON]
    return (value,)


def _add(ended: Ways, way: str, end: Way, test: str = _SOMETIMES) -> None:
    if way not in ended:
        ended[way] = end
        return
    (one, value), (other, another) = ended[way], end
    ended[way] = (joined(test, one, other), either(test, value, another, one, other))


def _statement(run: Run, node: ast.stmt, scope: Scope) -> Ways:
    way = _STATEMENTS.get(type(node))
    try:
        ways = way(run, node, scope) if way is not None else None
    except Stops:
        return {_STOPS: (run.state, None)}
    return {_ON: (run.state, None)} if ways is None else ways


def _expression(run: Run, node: ast.Expr, scope: Scope) -> None:
    run.value_of(node.value, scope)


def _assign(run: Run, node: ast.Assign, scope: Scope) -> None:
    value = run.value_of(node.value, scope)
    for target in node.targets:
        run.bind(target, value, scope, node.value)


def _annotated(run: Run, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        run.bind(node.target, run.value_of(node.value, scope), scope, node.value)


def _changed(run: Run, node: ast.AugAssign, scope: Scope) -> None:
    before = copy.copy(node.target)
    before.ctx = ast.Load()
    whole = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
    found = run.state.of(run.value_of(before, scope))
    more = run.value_of(node.value, scope)
    if isinstance(found, Listed) and isinstance(node.op, ast.Add):
        library.method(run.value_of(before, scope), "extend", [more], Items(), run)
    elif isinstance(found, Items) and isinstance(node.op, ast.BitOr):
        library.method(run.value_of(before, scope), "update", [more], Items(), run)
    else:
        run.bind(node.target, run.value_of(whole, scope), scope, whole)


def _if(run: Run, node: ast.If, scope: Scope) -> Ways:
    value = run.value_of(node.test, scope)
    test = is_true(value, run)
    if test is not None:
        is_taken = test and not gives_up(node.body)  # a script that is brought goes on
        if run.everywhere and unentered.leads(run, node.orelse if is_taken else node.body):
            return _both(run, node.body, node.orelse, scope, ast.unparse(node.test)[:_MOST_TEXT])
        return run.ends(node.body if is_taken else node.orelse, scope)
    said = value if isinstance(value, Computed) else ast.unparse(node.test)
    return _both(run, node.body, node.orelse, scope, str(said)[:_MOST_TEXT])


def _both(run: Run, body: Iterable[ast.stmt], orelse: Iterable[ast.stmt], scope: Scope, test: str) -> Ways:
    """Follow two ways, of which only the script knows which it takes."""
    before = run.state
    run.state = before.copy()
    one = run.ends(body, scope)
    run.state = before.copy()
    other = run.ends(orelse, scope)
    for way, end in other.items():
        _add(one, way, end, test)
    return one


def _for(run: Run, node: ast.For | ast.AsyncFor, scope: Scope) -> Ways:
    items = run.iterated(run.value_of(node.iter, scope))
    if items is not None and len(items) <= _MOST_ROUNDS:
        for ways in run.in_a_share(lambda: _rounds(run, node, items, scope)):
            return ways
    run.bind(node.target, Computed(ast.unparse(node.target)), scope)
    return _sometimes(run, node.body, scope)


def _rounds(run: Run, node: ast.For | ast.AsyncFor, items: Sequence[Any], scope: Scope) -> Ways:
    ended: Ways = {}
    for item in items:
        run.bind(node.target, item, scope)
        ways = run.ends(node.body, scope)
        following = _merged(ways, (_ON, _CONTINUES))
        for way in (_BREAKS, _RETURNS, _STOPS):
            if way in ways:
                _add(ended, _ON if way == _BREAKS else way, ways[way])
        if following is None:
            return ended
        run.state = following
    _add(ended, _ON, (run.state, None))
    return ended


def _while(run: Run, node: ast.While, scope: Scope) -> Ways:
    if is_true(run.value_of(node.test, scope), run) is False:
        return {_ON: (run.state, None)}
    return _sometimes(run, node.body, scope)


def _sometimes(run: Run, body: Sequence[ast.stmt], scope: Scope) -> Ways:
    """Follow what happens any number of times."""
    ways = _both(run, body, (), scope, _SOMETIMES)
    following = _merged(ways, (_ON, _CONTINUES, _BREAKS))
    found = {way: end for way, end in ways.items() if way in (_RETURNS, _STOPS)}
    return found if following is None else {**found, _ON: (following, None)}


def _merged(ways: Mapping[str, Way], which: Sequence[str]) -> State | None:
    ended: Ways = {}
    for way in which:
        if way in ways:
            _add(ended, _ON, ways[way])
    return ended[_ON][0] if ended else None


def _with(run: Run, node: ast.With | ast.AsyncWith, scope: Scope) -> Ways:
    for item in node.items:
        value = run.value_of(item.context_expr, scope)
        if item.optional_vars is not None:
            run.bind(item.optional_vars, value, scope)
    return run.ends(node.body, scope)


def _try(run: Run, node: ast.Try, scope: Scope) -> Ways:
    """Follow what is tried; what is done after an error only where it certainly comes."""
    ways = run.ends(node.body, scope)
    if _STOPS in ways and _ON not in ways and node.handlers:
        run.state = ways.pop(_STOPS)[0]
        for way, end in run.ends(node.handlers[0].body, scope).items():
            _add(ways, way, end)
    elif _ON in ways and node.orelse:
        run.state = ways.pop(_ON)[0]
        for way, end in run.ends(node.orelse, scope).items():
            _add(ways, way, end)
    if _ON in ways:
        run.state = ways.pop(_ON)[0]
        for way, end in run.ends(node.finalbody, scope).items():
            _add(ways, way, end)
    return ways


def _match(run: Run, node: ast.Match, scope: Scope) -> Ways:
    ways: Ways = {_ON: (run.state, None)}
    before = run.state
    for case in node.cases:
        run.state = before.copy()
        for way, end in run.ends(case.body, scope).items():
            _add(ways, way, end)
    return ways


def _return(run: Run, node: ast.Return, scope: Scope) -> Ways:
    value = None if node.value is None else run.value_of(node.value, scope)
    return {_RETURNS: (run.state, value)}


def _raise(run: Run, node: ast.Raise, scope: Scope) -> Ways:
    if isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "SystemExit":
        for item in node.exc.args:  # `raise SystemExit(main())`
            run.value_of(item, scope)
    return {_STOPS: (run.state, None)}


def _break(run: Run, _: ast.Break, __: Scope) -> Ways:
    return {_BREAKS: (run.state, None)}


def _continue(run: Run, _: ast.Continue, __: Scope) -> Ways:
    return {_CONTINUES: (run.state, None)}


def _function(run: Run, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
    run.bind(ast.Name(node.name, ast.Store()), Own(node, scope), scope)


def _class(run: Run, node: ast.ClassDef, scope: Scope) -> None:
    bases = tuple(run.value_of(item, scope) for item in node.bases)
    frame = run.new(Items(is_frame=True))
    run.ends(node.body, scope.inner(frame.number))
    # The body's names are no names of its methods'.
    for name, value in [*run.items_of(frame).items.items()]:
        if isinstance(value, Own) and value.scope.frames[0] == frame.number:
            run.items_of(frame).items[name] = Own(value.node, scope)
    run.bind(ast.Name(node.name, ast.Store()), OwnClass(node, bases, frame.number, scope), scope)


_STATEMENTS: Mapping[type[ast.stmt], Any] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _changed,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: imports.bind,
    ast.ImportFrom: imports.bind_from,
}
