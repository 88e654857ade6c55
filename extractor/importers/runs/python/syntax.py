"""What the text of a training script is made of: calls, decorators, and what ends it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from extractor.importers.runs.python.values import Function

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Decorators of commands, and of their options, by click and typer.
COMMANDS, DECLARES = ("command", "callback"), ("option", "argument")
# What starts a function with what the command line says.
_STARTS = ("run", "Fire")
# What ends a script.
ENDS = ("exit", "quit", "sys.exit", "os._exit")


def is_one_of(name: str, known: Sequence[str]) -> bool:
    """Tell whether a class is one of some, or is named after one."""
    return any(name.endswith(item) for item in known)


def last_of(of: str) -> str:
    """Return the last part of a dotted name."""
    return of.rpartition(".")[2]


def gives_up(body: Sequence[ast.stmt]) -> bool:
    """Tell whether statements do no more than end the script: `sys.exit(main())` does more."""
    last = body[-1]
    call = last.value if isinstance(last, ast.Expr) else last.exc if isinstance(last, ast.Raise) else None
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    if isinstance(call, ast.Call) and name in (*ENDS, "SystemExit") and any(map(_calls, call.args)):
        return False
    return isinstance(last, ast.Raise) or name in ENDS


def _calls(node: ast.expr) -> bool:
    return isinstance(node, ast.Call)


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a part of a script."""
    return (item for item in ast.walk(node) if isinstance(item, ast.Call))


def called(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return ast.unparse(call.func).rpartition(".")[2]


def decorators(node: Function) -> list[str]:
    """Return what a function is decorated with, as text."""
    return [ast.unparse(item) for item in getattr(node, "decorator_list", ())]


def yields(node: Function) -> bool:
    """Tell whether a function is a generator."""
    body = node.body if isinstance(node.body, list) else [node.body]
    waiting: list[ast.AST] = [*body]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(item, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(item))
    return False


def default_of(node: ast.expr | None) -> ast.expr | None:
    """Return the default of a dataclass's field: itself, or what `field(default=...)` says."""
    if isinstance(node, ast.Call) and called(node) in ("field", "Field"):
        values = {item.arg: item.value for item in node.keywords}
        made = values.get("default_factory")
        if isinstance(made, ast.Lambda):
            return made.body
        if isinstance(made, ast.expr):
            return ast.copy_location(ast.Call(made, [], []), made)
        return values.get("default", node.args[0] if node.args else None)
    return node


def declared(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the options of a script's command line, with their defaults.

    They are argparse's, click's, typer's and fire's, and the fields of dataclasses.
    """
    started = {ast.unparse(item) for call in calls_in(tree) if called(call) in _STARTS for item in call.args[:1]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in ("add_argument", *DECLARES):
            flags = [item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            default = next((item.value for item in node.keywords if item.arg == "default"), None)
            yield from ((flag.lstrip("-").replace("-", "_"), default) for flag in flags)
        elif isinstance(node, FUNCTIONS) and (node.name in started or any(map(_is_command, node.decorator_list))):
            yield from ((item.arg, None) for item in (*node.args.args, *node.args.kwonlyargs))
        elif isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(item) for item in node.decorator_list):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    yield item.target.id, default_of(item.value)


def _is_command(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and called(decorator) in COMMANDS
