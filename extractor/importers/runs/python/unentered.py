"""Functions of a training script that nothing in it calls: what calls them is elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from extractor.importers.runs.python import calls, commands
from extractor.importers.runs.python.expressions import Unknown
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.syntax import FUNCTIONS, called, calls_in, is_one_of
from extractor.importers.runs.python.values import Items, Own, OwnClass, Stops


def left(
    run: Run, names: Sequence[str]
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.ClassDef | None]]:
    """Yield functions that nothing has entered, and that make what is sought, perhaps by others."""
    owners = {
        id(item): node
        for node in ast.walk(run.tree)
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, FUNCTIONS)
    }
    functions = [node for node in ast.walk(run.tree) if isinstance(node, FUNCTIONS)]
    wanted, called_by = _wanted(run, names)
    unentered = [
        node
        for node in functions
        if (node.name in wanted or commands.is_one(node))
        and id(node) not in run.scopes
        and not commands.is_another(run, node)
    ]
    for node in unentered:
        others = [item for item in unentered if item is not node and node.name in called_by[item.name]]
        if not others and id(node) not in run.scopes:
            yield node, owners.get(id(node))


def _wanted(run: Run, names: Sequence[str]) -> tuple[set[str], dict[str, set[str]]]:
    """Return the names of functions that make what is sought, perhaps by others; and what each calls."""
    if tuple(names) in run.wanted:
        return run.wanted[tuple(names)]
    functions = [node for node in ast.walk(run.tree) if isinstance(node, FUNCTIONS)]
    called_by = {node.name: {called(call) for call in calls_in(node)} for node in functions}
    wanted = {name for name, inside in called_by.items() if any(is_one_of(item, names) for item in inside)}
    while more := {name for name, inside in called_by.items() if inside & wanted} - wanted:
        wanted |= more
    run.wanted[tuple(names)] = (wanted, called_by)
    return wanted, called_by


def leads(run: Run, body: Sequence[ast.stmt]) -> bool:
    """Tell whether statements make what is sought."""
    names = [name for group in run.sought for name in group]
    wanted, _ = _wanted(run, names)
    inside = [called(call) for node in body for call in calls_in(node)]
    return any(name in wanted or is_one_of(name, names) for name in inside)


def follow(run: Run, node: ast.FunctionDef | ast.AsyncFunctionDef, kind: ast.ClassDef | None) -> None:
    """Follow a function with its defaults: a method of an instance that is made with its defaults."""
    try:
        owner: Any = None
        scope = run.top
        if kind is not None:
            found = run.looked_up(kind.name, run.top)
            if isinstance(found, OwnClass):
                call = ast.Call(ast.Name(kind.name, ast.Load()), [], [])
                owner = calls.instance(run, found, [], Items(), ast.copy_location(call, kind), run.top)
                if id(node) in run.scopes:
                    return
        function = Own(node, scope, owner)
        run.enter(function, [], commands.start(run, function), node.name)
    except (Stops, Unknown):
        pass
