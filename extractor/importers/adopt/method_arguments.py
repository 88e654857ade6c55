"""Find a fork's arguments to its methods, rewritten for a hook."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from extractor.importers.adopt.find_methods import ESTIMATOR, LOSS, Method, list_parameters
from extractor.importers.adopt.fork_code import ForkCode, ForkModule
from extractor.importers.adopt.target_project import NoPlace
from extractor.importers.config.templates import read_table
from extractor.importers.runs.copied_code.code import list_required_arguments
from extractor.pipeline.index.syntax import read_attribute_chain

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TABLE = read_table("adopt")
_TRAINERS: Mapping[str, str] = _TABLE["trainers"]
_ESTIMATORS_OWN: Mapping[str, str] = _TABLE["estimators"]
_OF_A_LOSS = {name: name for name in _TABLE["of_a_loss"]}
_LOSSES_OWN: Mapping[str, str] = {**_OF_A_LOSS, **_TABLE["losses"]}


def list_arguments(
    fork: ForkCode, method: Method, node: ast.FunctionDef | ast.AsyncFunctionDef, left: list[str]
) -> list[str]:
    """Return the keyword arguments for a hook's call of the function.

    Raises:
        NoPlace: it has to be given something that nobody has.
    """
    known = _ESTIMATORS_OWN if method.kind == ESTIMATOR else _LOSSES_OWN
    found, needed, given = [], set(list_required_arguments(node)), find_given(fork, method)
    for item in list_parameters(node):
        text = known.get(item.arg) or given.get(item.arg)
        if text is not None:
            found.append(f"{item.arg}={text}")
        elif item.arg in needed and method.kind == ESTIMATOR:
            found.append(f'{item.arg}=now.column("{item.arg}")')
        elif item.arg in needed:
            raise NoPlace(f"a policy loss is not given {item.arg}, which {node.name} needs")
        elif item.arg in given:
            left.append(item.arg)
    return found


def find_given(fork: ForkCode, method: Method) -> dict[str, str | None]:
    """Return arguments only the fork passes, as hook expressions or None."""
    node = method.module.by_name[method.function].node
    if method.branch is not None or not isinstance(node, _FUNCTIONS):
        return {}
    known, words = (
        (_ESTIMATORS_OWN, _TABLE["callers"])
        if method.kind == ESTIMATOR
        else (_LOSSES_OWN, {**_TABLE["actors"], **_OF_A_LOSS})
    )
    names = [item.arg for item in list_parameters(node)]
    found: dict[str, str | None] = {}
    for name, value, around in _find_handed(fork, method, names):
        if name in names and name not in known and name not in (*found, *_TABLE["of_others"]):
            is_default = isinstance(value, ast.Constant) and value.value is None
            found |= {} if is_default else {name: _rewrite_for_hook(value, around, words)}
    return found


def _find_handed(fork: ForkCode, method: Method, names: list[str]) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """Yield each argument the fork passes: name, value, enclosing function."""
    callers = {method.function} | ({"policy_loss_fn"} if method.kind == LOSS and method.registered else set())
    for module in {item.name: item for word in callers for item in fork.mentions(f"{word}(")}.values():
        for call, around in _find_calls(module, callers):
            yield from ((name, value, around) for name, value in zip(names, call.args, strict=False))
            yield from ((item.arg, item.value, around) for item in call.keywords if item.arg)
    for module in fork.mentions("adv_kwargs[") if method.kind == ESTIMATOR else ():
        for caller in (item.node for item in module.segments if "compute_advantage" in item.binds and item.node):
            for part in ast.walk(caller):
                target = part.targets[0] if isinstance(part, ast.Assign) else None
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    assert isinstance(part, ast.Assign)
                    yield str(target.slice.value), part.value, caller


def _find_calls(module: ForkModule, names: Collection[str]) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Yield calls of the named functions, each with its enclosing function."""
    for segment in module.segments:
        for around in ast.walk(segment.node) if segment.node is not None else ():
            if isinstance(around, _FUNCTIONS):
                for part in ast.walk(around):
                    if isinstance(part, ast.Call) and (read_attribute_chain(part.func) or ("",))[-1] in names:
                        yield part, around


def list_branch_arguments(
    fork: ForkCode, method: Method, node: ast.FunctionDef | ast.AsyncFunctionDef, left: list[str]
) -> list[str]:
    """Return the arguments for a hook's call of the fork's compute_advantage.

    Raises:
        NoPlace: it is called with something that a project has not.
    """
    names = [item.arg for item in list_parameters(node)]
    call, trainer = _find_trainer_call(fork, method)
    given = dict(zip(names, call.args, strict=False)) | {item.arg: item.value for item in call.keywords if item.arg}
    needed = set(list_required_arguments(node))
    used = {
        part.id for body in (method.branch or ([], None))[0] for part in ast.walk(body) if isinstance(part, ast.Name)
    }
    used |= {
        part.id
        for item in node.body
        if not isinstance(item, ast.If) or item is not (method.branch or (0, 0))[1]
        for part in ast.walk(item)
        if isinstance(part, ast.Name)
    }
    found = []
    for place, name in enumerate(names[1:]):
        if place == 0:
            found.append(f'{name}="{method.name}"')
        elif name in given and (name in used or name in needed):
            text = _rewrite_for_hook(given[name], trainer, _TRAINERS)
            if text is not None:
                found.append(f"{name}={text}")
            elif name in needed and name in used:
                raise NoPlace(f"its trainer gives it {name}={ast.unparse(given[name])}, which no project has")
            elif name in needed:
                found.append(f"{name}=None")
            else:
                left.append(name)
        elif name in needed:
            found.append(f"{name}={_ESTIMATORS_OWN.get(name, 'None')}")
    return found


def _find_trainer_call(fork: ForkCode, method: Method) -> tuple[ast.Call, ast.AST]:
    """Return the compute_advantage call with most arguments, and its function."""
    for module in (method.module, *fork.mentions("compute_advantage(")):
        calls = list(_find_calls(module, (method.function,)))
        if calls:
            return max(calls, key=lambda item: len(item[0].args) + len(item[0].keywords))
    return ast.Call(ast.Name(method.function), [], []), ast.Module([], [])


def _rewrite_for_hook(value: ast.expr, trainer: ast.AST, words: Mapping[str, str], depth: int = 0) -> str | None:
    """Rewrite a trainer's expression for a hook; None if impossible."""
    text = ast.unparse(value)
    for own, ours in words.items():
        text = re.sub(rf"(?<![\w.]){re.escape(own)}\b", ours, text)
    known = {"True", "int", "float", "bool", *(ours.partition(".")[0] for ours in words.values())}
    free = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} - known
    for name in sorted(free):
        values = [
            item.value
            for item in ast.walk(trainer)
            if isinstance(item, ast.Assign) and len(item.targets) == 1 and ast.unparse(item.targets[0]) == name
        ]
        inner = _rewrite_for_hook(values[0], trainer, words, depth + 1) if len(values) == 1 and depth < 4 else None
        if inner is None:
            return None
        parts = re.split(rf"(?<![\w.]){name}\b(?!=)", text)
        text = inner if parts == ["", ""] else f"({inner})".join(parts)
    return text
