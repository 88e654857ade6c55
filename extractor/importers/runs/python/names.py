"""What names and attributes of a training script stand for, and what an assignment gives them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from extractor.importers.runs.python import library
from extractor.importers.runs.python.parsing import OF_A_PARSER
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.syntax import FUNCTIONS, decorators
from extractor.importers.runs.python.values import (
    Computed,
    Items,
    Listed,
    Made,
    Method,
    Outside,
    Own,
    OwnClass,
    OwnModule,
    Ref,
    Scope,
)


def looked_up(run: Run, name: str, scope: Scope) -> Any:
    """Return what a name stands for."""
    for number in scope.frames:
        frame = run.state.frame(number)
        if name in frame.items:
            return frame.items[name]
    return Outside(name)


def attribute(run: Run, owner: Any, name: str, text: str) -> Any:
    """Return an attribute of a value: its text where only the script knows."""
    found = run.state.of(owner)
    if isinstance(found, Items) and name in found.items and not found.is_frame:
        return Computed(text) if name in found.doubtful else found.items[name]
    if isinstance(found, Items) and found.is_open and name not in library.OF_DICTS:
        return run.opened(found, name)
    if isinstance(found, (Items, Listed)):
        return Method(owner, name)
    if isinstance(found, Made):
        return _of_made(run, owner, found, name, text)
    if isinstance(owner, OwnModule):
        return run.state.frame(owner.frame).items.get(name, Outside(f"{owner.name}.{name}"))
    if isinstance(owner, Own) and name == "remote":  # of Ray: it is done elsewhere, and the same
        return owner
    if isinstance(owner, OwnClass):
        return _of_class(run, owner, name, text)
    if isinstance(owner, Computed):
        return Method(owner, name) if name in OF_A_PARSER else Computed(text)
    if isinstance(owner, Outside) and name in OF_A_PARSER:
        return Method(owner, name)
    if owner == Outside("sys") and name == "argv" and run.words is not None:
        return run.new(Listed([run.path.name, *run.words]))
    if owner == Outside("sys") and name == "executable":
        return "python3"
    value = library.attribute(owner, name)
    return Computed(text) if value is library.NOT_HERE else value


def _of_class(run: Run, owner: OwnClass, name: str, text: str) -> Any:
    value = in_class(run, owner, name)
    if isinstance(value, Own) and "classmethod" in decorators(value.node):
        return Own(value.node, value.scope, owner)
    if value is None and name in ("remote", "options"):  # of Ray
        return owner if name == "remote" else Method(owner, name)
    return Computed(text) if value is None else value


def _of_made(run: Run, owner: Ref, found: Made, name: str, text: str) -> Any:
    for part in (found.attributes, found.named, found.defaults):
        if name in part.items:
            return part.items[name]
    if found.kind is not None:
        value = in_class(run, found.kind, name)
        if isinstance(value, Own) and isinstance(value.node, FUNCTIONS):
            wrapped = decorators(value.node)
            whose = None if "staticmethod" in wrapped else found.kind if "classmethod" in wrapped else owner
            bound = Own(value.node, value.scope, whose)
            return run.enter(bound, [], Items(), text) if "property" in wrapped else bound
        if value is not None:
            return value
        return Computed(text) if found.is_parsed or _is_whole(run, found.kind) else Method(owner, name)
    if found.is_parsed:
        return run.entered(run.given[name]) if name in run.given else Computed(text)
    return Method(owner, name)


def _is_whole(run: Run, kind: OwnClass) -> bool:
    return all(isinstance(base, OwnClass) and _is_whole(run, base) for base in kind.bases)


def in_class(run: Run, kind: OwnClass, name: str) -> Any:
    """Return what a class or one of its bases has; None: nothing."""
    frame = run.state.frame(kind.frame)
    if name in frame.items:
        return frame.items[name]
    for base in kind.bases:
        if isinstance(base, OwnClass) and (found := in_class(run, base, name)) is not None:
            return found
    return None


def bind(run: Run, target: ast.expr, value: Any, scope: Scope, node: ast.expr | None = None) -> None:
    """Give a value to what stands left of an assignment."""
    if isinstance(target, ast.Name):
        run.items_of(Ref(scope.frames[0])).put(target.id, value, node)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _bind_each(run, target.elts, value, scope)
    elif isinstance(target, ast.Starred):
        run.bind(target.value, Computed(ast.unparse(target)), scope)
    elif isinstance(target, ast.Attribute):
        set_attribute(run, run.value_of(target.value, scope), target.attr, value, node)
    elif isinstance(target, ast.Subscript):
        _put(run, target, value, scope, node)


def _bind_each(run: Run, targets: Sequence[ast.expr], value: Any, scope: Scope) -> None:
    made = run.state.of(value)
    items = run.iterated(value)
    if isinstance(made, Made) and made.kind is None:  # `model, tokenizer = load(...)`
        items = [value, *(Computed(ast.unparse(made.node)) for _ in targets[1:])]
    for index, target in enumerate(targets):
        is_known = items is not None and len(items) == len(targets)
        run.bind(target, items[index] if items and is_known else Computed(ast.unparse(target)), scope)


def set_attribute(run: Run, owner: Any, name: str, value: Any, node: ast.expr | None) -> None:
    """Give an attribute to an object: `config.beta = 0.1`."""
    found = run.state.of(owner)
    place = found.attributes if isinstance(found, Made) else found
    if isinstance(place, Items):
        place.put(name, value, node)
    elif isinstance(owner, OwnModule):
        set_attribute(run, Ref(owner.frame), name, value, node)


def _put(run: Run, target: ast.Subscript, value: Any, scope: Scope, node: ast.expr | None) -> None:
    found = run.state.of(run.value_of(target.value, scope))
    index = run.value_of(target.slice, scope)
    if isinstance(found, Items) and not isinstance(index, (Computed, Ref)):
        found.put(index, value, node)
    elif isinstance(found, Items):
        found.pour(None)
    elif isinstance(found, Listed) and isinstance(index, int) and -len(found.items) <= index < len(found.items):
        found.items[index] = value
    elif isinstance(found, Listed):
        found.is_whole = False
