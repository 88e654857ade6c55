"""What a training script hands to a call: by name, in dicts that it fills, and as attributes that it sets later."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from extractor.usecases.fromrun.other_libraries.script_names import Known, name_of, where_reached
from extractor.usecases.fromrun.other_libraries.script_values import Computed, value_of

# In the place of a name: what a call is handed as a whole, `**settings`, and is not known to be a dict of the script's.
WHOLE = ""
# What a trainer takes that is made by a call of its own.
_MADE = ("args", "config", "peft_config")
# A condition that is none of the script's: of a loop, or of an error that may come.
_SOMETIMES = ast.Name("...", ast.Load())

RoleOf = Callable[[ast.Call], str]
_Conditions = tuple[tuple[ast.expr, bool], ...]


@dataclass(frozen=True)
class Write:
    """Something that a script writes into what a name stands for: `settings["beta"] = 0.1`, `config.beta = 0.1`.

    Attributes:
        key: The item or the attribute; `WHOLE` for what is not known by name.
        value: What it becomes.
        conditions: What has to hold for that, or not to.
        is_attribute: Whether it is an attribute.
    """

    key: str
    value: ast.expr
    conditions: _Conditions
    is_attribute: bool = False


def writes(tree: ast.Module) -> dict[str, list[Write]]:
    """Return what a script writes into what its names stand for, in order, by the names."""
    found: dict[str, list[Write]] = {}
    made: dict[str, _Conditions] = {}
    for node, conditions, arguments in walked(tree):
        for target in _targets(node):
            if isinstance(target, ast.Name):
                made[target.id] = conditions
        for name, key, value, is_attribute in _written(node):
            if name not in arguments or not is_attribute:
                further = tuple(item for item in conditions if item not in made.get(name, ()))
                found.setdefault(name, []).append(Write(key, value, further, is_attribute))
    return found


def arguments_of(
    call: ast.Call, known: Known, written: Mapping[str, Iterable[Write]]
) -> Iterator[tuple[str, ast.expr]]:
    """Yield a call's arguments by name, also those of a dict that is handed over whole: `GRPOConfig(**settings)`.

    Args:
        call: The call.
        known: What the script's names stand for.
        written: What it writes into them.
    """
    for item in call.keywords:
        if item.arg is not None:
            yield item.arg, item.value
        else:
            yield from _items(item.value, known, written, {})


def by_position(call: ast.Call, names: Iterable[str]) -> ast.Call:
    """Return a call with names for the arguments that it gives by their position."""
    given = [ast.keyword(name, value) for name, value in zip(names, call.args, strict=False)]
    return ast.copy_location(ast.Call(call.func, [], [*given, *call.keywords]), call) if given else call


def taken(
    tree: ast.Module, calls: Sequence[ast.Call], trainers: Iterable[ast.Call], known: Known, role_of: RoleOf
) -> list[ast.Call]:
    """Return calls without those whose value nobody takes, or of a kind of which a trainer takes another.

    Args:
        tree: The script.
        calls: Of it.
        trainers: Those that make trainers.
        known: What its names stand for.
        role_of: Returns a call's kind.
    """
    thrown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    wanted: dict[str, set[int]] = {}
    for item in (item for call in trainers for item in call.keywords):
        value = known.constants.get(item.value.id) if isinstance(item.value, ast.Name) else item.value
        if item.arg in _MADE and isinstance(value, ast.Call):
            wanted.setdefault(role_of(value), set()).add(id(value))
    found = []
    for call in calls:
        role = role_of(call)
        is_thrown = role.endswith("Config") and id(call) in thrown
        if not is_thrown and id(call) in wanted.get(role, {id(call)}):
            found.append(call)
    return found


def reached(tree: ast.Module, known: Known) -> Known:
    """Return what names stand for where a script goes, as far as what it depends on is known."""
    left = {
        id(part) for node, conditions, _ in walked(tree) if not may_hold(conditions, known) for part in ast.walk(node)
    }
    return where_reached(tree, known, left) if left else known


def may_hold(conditions: _Conditions, known: Known) -> bool:
    """Return False where one of several conditions is known not to hold."""
    answers = ((value_of(test, known), holds) for test, holds in conditions)
    return all(isinstance(was, Computed) or bool(was) is holds for was, holds in answers)


def attributes_of(name: str, known: Known, written: Mapping[str, Iterable[Write]]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes that a script gives to what a name stands for."""
    yield from _filled({}, (item for item in written.get(name, ()) if item.is_attribute), known).items()


def _filled(found: dict[str, ast.expr], later: Iterable[Write], known: Known) -> dict[str, ast.expr]:
    """Return items with those that are written later, where what that depends on holds, or may hold."""
    for item in later:
        value = item.value
        for test, holds in reversed(item.conditions):
            was = value_of(test, known)
            if isinstance(was, Computed):
                before = found.get(item.key, ast.Constant(None))
                before = _SOMETIMES if isinstance(before, ast.IfExp) else before
                value = ast.IfExp(test if holds else ast.UnaryOp(ast.Not(), test), value, before)
            elif bool(was) is not holds:
                break
        else:
            found[item.key] = value
    return found


def _items(
    node: ast.expr, known: Known, written: Mapping[str, Iterable[Write]], made: dict[str, dict[str, ast.expr]]
) -> Iterator[tuple[str, ast.expr]]:
    """Yield what is in a dict; `made` holds those that have a name."""
    if isinstance(node, ast.Name) and node.id in known.constants:
        if node.id not in made:
            made[node.id] = {}  # as long as it is looked into
            made[node.id] = _named(known.constants[node.id], written.get(node.id, ()), known, written, made)
        yield from ((key, value if key != WHOLE else node) for key, value in made[node.id].items())
        return
    if isinstance(node, ast.Name) and (there := known.there.get(id(node))) is not None:
        first, last = getattr(there, "lineno", 0), node.lineno  # others may have the name elsewhere
        between = [item for item in written.get(node.id, ()) if first <= item.value.lineno <= last]
        yield from _named(there, between, known, written, made).items()
        return
    for name, value in _parts(node):
        if name == WHOLE and value is not node:
            yield from _items(value, known, written, made)
        elif name == WHOLE and isinstance(whole := value_of(value, known), dict):
            yield from ((str(key), ast.Constant(item)) for key, item in whole.items())
        else:
            yield name, value


def _named(
    made_of: ast.expr,
    changes: Iterable[Write],
    known: Known,
    written: Mapping[str, Iterable[Write]],
    made: dict[str, dict[str, ast.expr]],
) -> dict[str, ast.expr]:
    """Return what is in a dict that has a name, with what is written into it later."""
    first = dict(_items(made_of, known, written, made))
    later: list[Write] = []
    for item in changes:
        if item.key == WHOLE and not item.is_attribute:
            inner = _items(item.value, known, written, made)
            later += [replace(item, key=key, value=value) for key, value in inner]
        elif not item.is_attribute:
            later.append(item)
    return _filled(first, later, known)


def _parts(node: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return what an expression puts into a dict: items, and whole dicts; itself, whole, where that is not known."""
    if isinstance(node, ast.Call) and name_of(node) == "dict" and len(node.args) < 2:
        given = [(item.arg or WHOLE, item.value) for item in node.keywords]
        return [*((WHOLE, item) for item in node.args), *given]
    if isinstance(node, ast.Dict):
        keys = [item.value if isinstance(item, ast.Constant) else item for item in node.keys]
        if all(key is None or isinstance(key, str) for key in keys):
            return [(str(key or WHOLE), value) for key, value in zip(keys, node.values, strict=True)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [(WHOLE, node.left), (WHOLE, node.right)]
    return [(WHOLE, _filtered(node) or node)]


def _filtered(node: ast.expr) -> ast.expr | None:
    """Return the dict of which a comprehension takes items as they are, `{k: v for k, v in settings.items() if v}`."""
    if not isinstance(node, ast.DictComp) or len(node.generators) != 1:
        return None
    made = node.generators[0]
    if not isinstance(made.iter, ast.Call) or not isinstance(made.iter.func, ast.Attribute):
        return None
    pair = [ast.unparse(item) for item in getattr(made.target, "elts", ())]
    is_same = pair == [ast.unparse(node.key), ast.unparse(node.value)]
    return made.iter.func.value if is_same and made.iter.func.attr == "items" else None


def walked(tree: ast.Module) -> Iterator[tuple[ast.stmt, _Conditions, frozenset[str]]]:
    """Yield a script's statements with what each depends on, and the arguments of the functions that it is in."""
    return _walked(tree.body, (), frozenset())


def _walked(
    body: Iterable[ast.stmt], conditions: _Conditions, arguments: frozenset[str]
) -> Iterator[tuple[ast.stmt, _Conditions, frozenset[str]]]:
    """Yield statements with what they depend on, and the arguments of the functions that they are in."""
    for node in body:
        yield node, conditions, arguments
        within, otherwise = conditions, conditions
        names = arguments
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = arguments.union(item.arg for item in ast.walk(node.args) if isinstance(item, ast.arg))
        elif isinstance(node, ast.If) and "__name__" not in ast.unparse(node.test):
            within, otherwise = (*conditions, (node.test, True)), (*conditions, (node.test, False))
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            within = otherwise = (*conditions, (_SOMETIMES, True))
        yield from _walked(getattr(node, "body", ()), within, names)
        yield from _walked(getattr(node, "orelse", ()), otherwise, names)
        yield from _walked(getattr(node, "finalbody", ()), conditions, names)
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from _walked(part.body, (*conditions, (_SOMETIMES, True)), names)


def _targets(node: ast.stmt) -> list[ast.expr]:
    """Return what an assignment assigns to."""
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        return [node.target]
    return []


def _written(node: ast.stmt) -> Iterator[tuple[str, str, ast.expr, bool]]:
    """Yield what a statement writes: name, key, value, and whether the key is an attribute."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
        for target in _targets(node):
            owner = getattr(target, "value", None)
            value = ast.BinOp(target, node.op, node.value) if isinstance(node, ast.AugAssign) else node.value
            if isinstance(owner, ast.Name) and isinstance(target, ast.Attribute):
                yield owner.id, target.attr, value, True
            elif isinstance(owner, ast.Name) and isinstance(target, ast.Subscript):
                key = target.slice.value if isinstance(target.slice, ast.Constant) else WHOLE
                yield owner.id, str(key), value if key != WHOLE else target, False
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        if call.func.attr == "update":
            for part in call.args:
                yield call.func.value.id, WHOLE, part, False
            for item in call.keywords:
                yield call.func.value.id, item.arg or WHOLE, item.value, False
    elif isinstance(call, ast.Call) and name_of(call) == "setattr" and len(call.args) == 3:
        whose, name, value = call.args
        if isinstance(whose, ast.Name) and isinstance(name, ast.Constant):
            yield whose.id, str(name.value), value, True
