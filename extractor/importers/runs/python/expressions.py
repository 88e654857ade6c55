"""What expressions of a training script are worth, as far as that can be said without running it."""

from __future__ import annotations

import ast
import contextlib
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from extractor.importers.runs.python import library
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.states import plain_of
from extractor.importers.runs.python.values import (
    LONGEST,
    Anything,
    Computed,
    Either,
    Items,
    Listed,
    Made,
    Method,
    Opened,
    Outside,
    Own,
    OwnClass,
    Ref,
    Scope,
    Unsaid,
)
from extractor.values import readers

_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARES: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_NUMBERS = (int, float)
# How large a number may get, over how many items a comprehension goes, and of how many parts a text may be that only
# the script knows.
_MOST_BITS, _MOST_ITEMS, _MOST_PARTS = 1_000, 1_000, 500
# How a text with values in it begins.
_TEXTS = ("f'", 'f"')


class Unknown(Exception):
    """An expression has no value that is known."""


def value_of(node: ast.expr, scope: Scope, run: Run) -> Any:
    """Return what an expression is worth where a script has come to; its text where only the script knows."""
    way = _WAYS.get(type(node))
    try:
        if way is None:
            return _checked(ast.literal_eval(node))
        return _checked(way(node, scope, run))
    except (Unknown, ValueError, TypeError, SyntaxError, ArithmeticError, LookupError, MemoryError, RecursionError):
        return Computed(ast.unparse(node))


def _checked(value: Any) -> Any:
    if isinstance(value, (str, bytes, tuple)) and len(value) > LONGEST:
        raise ValueError("too long")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("too large")
    return value


def known(node: ast.expr, scope: Scope, run: Run) -> Any:
    """Return what an expression is worth.

    Raises:
        Unknown: only the script knows.
    """
    value = value_of(node, scope, run)
    if isinstance(value, Computed):
        raise Unknown
    return value


def is_true(value: Any, run: Run) -> bool | None:
    """Tell whether a value counts as true; None where that is not known."""
    if isinstance(value, Unsaid):
        return False
    if isinstance(value, (Computed, Opened)):
        return True if value.startswith(_TEXTS) and _is_some_text(value) else None
    if isinstance(value, Outside) and value.name.endswith("TYPE_CHECKING"):
        return False
    found = run.state.of(value)
    if isinstance(found, (Items, Listed)):
        return bool(found.items) if found.items or found.is_whole else None
    if isinstance(found, Made) or isinstance(value, (Outside, Method)):
        return True if isinstance(found, Made) and found.kind is not None else None
    return bool(value)


def _name(node: ast.Name, scope: Scope, run: Run) -> Any:
    return run.looked_up(node.id, scope)


def _operation(node: ast.BinOp, scope: Scope, run: Run) -> Any:
    one, other = (known(side, scope, run) for side in (node.left, node.right))
    mine, theirs = run.state.of(one), run.state.of(other)
    if isinstance(node.op, ast.BitOr) and isinstance(mine, Items) and isinstance(theirs, Items):
        made = mine.copy()
        made.pour(theirs)
        return run.new(made)
    if isinstance(node.op, ast.Add) and isinstance(mine, Listed) and isinstance(theirs, Listed):
        both = mine.copy()
        both.extend(theirs.items if theirs.is_whole else None)
        return run.new(both)
    if isinstance(node.op, ast.Div) and isinstance(one, str) and isinstance(other, str):
        return library.joined_path(one, other)
    if isinstance(node.op, ast.Add) and any(isinstance(one, kind) and isinstance(other, kind) for kind in (str, tuple)):
        return one + other
    if isinstance(node.op, ast.Pow) and all(
        isinstance(side, _NUMBERS) and abs(side) < LONGEST for side in (one, other)
    ):
        return one**other if abs(other) < _MOST_BITS else None
    if not isinstance(one, _NUMBERS) or not isinstance(other, _NUMBERS):
        raise Unknown
    return _OPERATIONS[type(node.op)](one, other)


def _list(node: ast.List | ast.Set, scope: Scope, run: Run) -> Any:
    items, whole = parts(node.elts, scope, run)
    return run.new(Listed(items, whole))


def _tuple(node: ast.Tuple, scope: Scope, run: Run) -> Any:
    items, whole = parts(node.elts, scope, run)
    if not whole:
        raise Unknown
    return tuple(items)


def parts(nodes: list[ast.expr], scope: Scope, run: Run) -> tuple[list[Any], bool]:
    found: list[Any] = []
    whole = True
    for item in nodes:
        if isinstance(item, ast.Starred):
            inner = iterated(value_of(item.value, scope, run), run)
            whole = whole and inner is not None and len(inner) + len(found) <= LONGEST
            found += inner or [] if whole else []
        else:
            found.append(value_of(item, scope, run))
    return found, whole


def _dict(node: ast.Dict, scope: Scope, run: Run) -> Any:
    made = Items()
    for key, item in zip(node.keys, node.values, strict=True):
        if key is None:
            pour(made, item, scope, run)
            continue
        name = value_of(key, scope, run)
        if isinstance(name, Computed) or run.state.of(name) is not None:
            made.pour(None)
        else:
            made.put(name, value_of(item, scope, run), item)
    return run.new(made)


def pour(made: Items, node: ast.expr, scope: Scope, run: Run) -> None:
    """Put what is in a dict into another one: `{**settings}`, `call(**settings)`."""
    made.pour(run.state.of(value_of(node, scope, run)))


def _either_of(node: ast.IfExp, scope: Scope, run: Run) -> Any:
    test = is_true(value_of(node.test, scope, run), run)
    if test is None:
        one, other = (value_of(side, scope, run) for side in (node.body, node.orelse))
        if type(one) is type(other) and one == other and not isinstance(one, Computed):
            return one
        return Either.of(ast.unparse(node), one, other)
    return value_of(node.body if test else node.orelse, scope, run)


def _signed(node: ast.UnaryOp, scope: Scope, run: Run) -> Any:
    value = value_of(node.operand, scope, run)
    if isinstance(node.op, ast.Not):
        test = is_true(value, run)
        if test is None:
            raise Unknown
        return not test
    if not isinstance(value, _NUMBERS) or isinstance(node.op, ast.Invert):
        raise Unknown
    return -value if isinstance(node.op, ast.USub) else value


def _comparison(node: ast.Compare, scope: Scope, run: Run) -> bool:
    sides = [value_of(side, scope, run) for side in (node.left, *node.comparators)]
    if None in sides:
        sides = [None if isinstance(side, Unsaid) else side for side in sides]
    if any(isinstance(side, Computed) for side in sides):
        raise Unknown
    return all(_compared(op, *pair, run) for op, pair in zip(node.ops, itertools.pairwise(sides), strict=True))


def _compared(op: ast.cmpop, one: Any, other: Any, run: Run) -> bool:
    if isinstance(op, (ast.In, ast.NotIn)):
        found = run.state.of(other)
        if isinstance(found, Items) and found.is_open:
            return isinstance(op, ast.In)
        if isinstance(found, (Items, Listed)):
            sure = [item for item in found.items if not isinstance(item, Computed)]
            if one not in sure and (not found.is_whole or len(sure) < len(found.items)):
                raise Unknown
            other = sure
        elif not isinstance(other, (str, tuple, Anything)):
            raise Unknown
    elif isinstance(op, (ast.Is, ast.IsNot)) and (one is None or other is None):
        some = other if one is None else one
        inside = run.state.of(some)
        if isinstance(some, (Outside, Method)) or (isinstance(inside, Items) and inside.is_open):
            raise Unknown
    elif any(isinstance(side, (Ref, Outside, Method, Own, OwnClass)) for side in (one, other)):
        plain = [run.plain(side) for side in (one, other)]
        if any(isinstance(side, Computed) for side in plain):
            raise Unknown
        one, other = plain
    return bool(_COMPARES[type(op)](one, other))


def _first(node: ast.BoolOp, scope: Scope, run: Run) -> Any:
    """Return the first of what `or` or `and` joins that decides, or the last."""
    value = None
    for part in node.values:
        value = value_of(part, scope, run)
        test = is_true(value, run)
        if test is None:
            raise Unknown
        if test is isinstance(node.op, ast.Or):
            break
    return value


def _is_some_text(value: str) -> bool:
    """Tell whether an expression is a text that has something in it, whatever only the script knows."""
    node = readers.expression(value)
    parts = node.values if isinstance(node, ast.JoinedStr) else ()
    return any(isinstance(part, ast.Constant) and part.value for part in parts)


def _text(node: ast.JoinedStr, scope: Scope, run: Run) -> str:
    """Return a text with values in it; one with what only the script knows is shown with what else is known."""
    found = [item for part in node.values for item in _parts_of_text(part, scope, run)]
    if all(isinstance(part, ast.Constant) for part in found):
        return "".join(str(ast.literal_eval(part)) for part in found)
    if len(found) > _MOST_PARTS:
        raise Unknown
    try:
        return Computed(ast.unparse(ast.JoinedStr(found)))
    except ValueError:  # quotes that this Python cannot write in one another
        raise Unknown from None


def _parts_of_text(part: ast.expr, scope: Scope, run: Run) -> list[ast.expr]:
    if not isinstance(part, ast.FormattedValue):
        return [part]
    value = value_of(part.value, scope, run)
    if isinstance(run.state.of(value), (Items, Listed)):
        value = plain_of(value, run.state)
    there = readers.expression(value) if isinstance(value, Computed) else None
    if not isinstance(value, Computed):
        with contextlib.suppress(Unknown, ValueError):
            how = "" if part.format_spec is None else known(part.format_spec, scope, run)
            return [ast.Constant(library.formatted(value, how, part.conversion))]
    if isinstance(there, ast.JoinedStr) and part.format_spec is None and part.conversion == -1:
        return there.values
    return [ast.FormattedValue(there or part.value, part.conversion, part.format_spec)]


def _item(node: ast.Subscript, scope: Scope, run: Run) -> Any:
    """Return an item of a list or a dict; of `path.parents[1]` the folder."""
    if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
        index = known(node.slice, scope, run)
        return library.parent(known(node.value.value, scope, run), index)
    owner = known(node.value, scope, run)
    if owner == Outside("os.environ"):
        raise Unknown
    found = run.state.of(owner)
    if isinstance(node.slice, ast.Slice):
        return _slice(node.slice, owner, found, scope, run)
    index = known(node.slice, scope, run)
    if isinstance(found, Made):  # `model, tokenizer = load(...)`
        if found.kind is None and index == 0:
            return owner
        raise Unknown
    if isinstance(found, Items):
        return run.opened(found, index) if found.is_open else found.get(index)
    items = found.items if isinstance(found, Listed) and found.is_whole else owner
    if not isinstance(items, (list, tuple, str)):
        raise Unknown
    return items[index]


def _slice(node: ast.Slice, owner: Any, found: Any, scope: Scope, run: Run) -> Any:
    ends = [None if part is None else known(part, scope, run) for part in (node.lower, node.upper, node.step)]
    if isinstance(found, Listed) and found.is_whole:
        return run.new(Listed(found.items[slice(*ends)]))
    if not isinstance(owner, (str, tuple)) or isinstance(owner, Opened):
        raise Unknown
    return owner[slice(*ends)]


def _attribute(node: ast.Attribute, scope: Scope, run: Run) -> Any:
    return run.attribute(value_of(node.value, scope, run), node.attr, ast.unparse(node))


def _called(node: ast.Call, scope: Scope, run: Run) -> Any:
    return run.call(node, scope)


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope, run: Run) -> Any:
    found = [value_of(node.elt, inner, run) for inner in _gone_over(node.generators, scope, run)]
    return run.new(Listed(found))


def _dict_comprehension(node: ast.DictComp, scope: Scope, run: Run) -> Any:
    made = Items()
    if isinstance(whole := run.state.of(_filtered(node, scope, run)), Items):
        first = node.generators[0]
        for key, value in whole.items.items():
            inner = _round(first.target, (key, value), scope, run)
            # What a condition that is not known leaves out is nothing that is missed.
            if all(is_true(value_of(test, inner, run), run) is not False for test in first.ifs):
                made.items[key] = value
        made.nodes = {key: item for key, item in whole.nodes.items() if key in made.items}
        made.is_whole = whole.is_whole
        return run.new(made)
    for here in _gone_over(node.generators, scope, run):
        made.items[known(node.key, here, run)] = value_of(node.value, here, run)
    return run.new(made)


def _filtered(node: ast.DictComp, scope: Scope, run: Run) -> Any:
    """Return the dict of which a comprehension takes items as they are, `{k: v for k, v in settings.items() if v}`."""
    first = node.generators[0]
    pair = [ast.unparse(item) for item in getattr(first.target, "elts", ())]
    is_same = len(node.generators) == 1 and pair == [ast.unparse(node.key), ast.unparse(node.value)]
    if is_same and isinstance(first.iter, ast.Call) and isinstance(first.iter.func, ast.Attribute):
        return value_of(first.iter.func.value, scope, run) if first.iter.func.attr == "items" else None
    return None


def _round(target: ast.expr, item: Any, scope: Scope, run: Run) -> Scope:
    """Return the scope of one round of a comprehension."""
    frame = run.new(Items(is_frame=True))
    inner = scope.inner(frame.number)
    run.bind(target, item, inner)
    return inner


def _gone_over(generators: list[ast.comprehension], scope: Scope, run: Run) -> Iterator[Scope]:
    """Yield a scope for each round of a comprehension; a condition that is not known may hold."""
    first, *others = generators
    items = iterated(value_of(first.iter, scope, run), run)
    if items is None or len(items) > _MOST_ITEMS:
        raise Unknown
    for item in items:
        inner = _round(first.target, item, scope, run)
        tests = [is_true(value_of(test, inner, run), run) for test in first.ifs]
        if None in tests and False not in tests:
            raise Unknown
        if all(tests):
            yield from _gone_over(others, inner, run) if others else (inner,)


def iterated(value: Any, run: Run) -> list[Any] | None:
    """Return what a loop over a value goes over; None where that is not known."""
    found = run.state.of(value)
    if isinstance(found, (Items, Listed)):
        return [*found.items] if found.is_whole else None
    return [*value] if isinstance(value, tuple) or (isinstance(value, str) and type(value) is str) else None


def _lambda(node: ast.Lambda, scope: Scope, _: Run) -> Own:
    return Own(node, scope)


def _assigned(node: ast.NamedExpr, scope: Scope, run: Run) -> Any:
    value = value_of(node.value, scope, run)
    run.bind(node.target, value, scope)
    return value


def _awaited(node: ast.Await, scope: Scope, run: Run) -> Any:
    return value_of(node.value, scope, run)


_WAYS: Mapping[type[ast.expr], Callable[..., Any]] = {
    ast.Name: _name,
    ast.BinOp: _operation,
    ast.List: _list,
    ast.Set: _list,
    ast.Tuple: _tuple,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.JoinedStr: _text,
    ast.IfExp: _either_of,
    ast.UnaryOp: _signed,
    ast.Compare: _comparison,
    ast.BoolOp: _first,
    ast.Subscript: _item,
    ast.Attribute: _attribute,
    ast.Call: _called,
    ast.Lambda: _lambda,
    ast.NamedExpr: _assigned,
    ast.Await: _awaited,
}
